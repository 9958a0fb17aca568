package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	// Version is the version of the keys and values that this package writes. Older versions are
	// read; the next write brings the database to this one.
	Version      = 6
	firstVersion = 1

	magic = "sluice"

	// ManifestMagic marks our databases in Badger's manifest ("SL"): Badger's "external magic".
	ManifestMagic = 0x534c
)

// ErrVersion: the data folder was written by a version of sluice whose format this one can't read.
var ErrVersion = errors.New("unknown format version")

// ErrDamaged: the database can't be trusted.
var ErrDamaged = errors.New("the database is damaged")

// Damaged is ErrDamaged with what is wrong.
func Damaged(text string, args ...any) error {
	return fmt.Errorf("store: %w: %s", ErrDamaged, fmt.Sprintf(text, args...))
}

// Readable reports whether this package reads a version.
func Readable(version uint32) bool { return version >= firstVersion && version <= Version }

// UnreadableVersion is ErrVersion for a data folder, with the remedy.
func UnreadableVersion(dir string, version uint32) error {
	return fmt.Errorf("store: %s has %w %d; this sluice reads versions up to %d: start the sluice that wrote it, or give another data folder",
		dir, ErrVersion, version, Version)
}

// AppendVersion appends the value of the version entry.
func AppendVersion(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, magic...), Version)
}

// ParseVersion decodes the value of the version entry. Its error is ErrDamaged.
func ParseVersion(value []byte) (uint32, error) {
	rest, ok := strings.CutPrefix(string(value), magic)
	if !ok || len(rest) != 4 {
		return 0, Damaged("its format version is garbage")
	}
	return binary.BigEndian.Uint32([]byte(rest)), nil
}
