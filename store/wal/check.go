package wal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-metrics/sluice/store/format"
)

// Check reports whether Badger would find in the logs all that it wrote. Its error is
// format.ErrDamaged, or one of the file system.
//
// All that was fsynced must be readable. Beyond that, a killed process leaves one unfinished entry
// at the very end of the last log and nothing after it, because the kernel still has all that it
// wrote. Only where the machine went down may there be holes. remark describes an unfinished end;
// it is empty where there is none.
func Check(dir string) (remark string, err error) {
	watermark := ReadWatermark(dir)
	onlyKilled := watermark.Boot != "" && watermark.Boot == bootID()
	logs := List(dir)
	for i, log := range logs {
		content, err := os.ReadFile(log.Path)
		if err != nil {
			return "", fmt.Errorf("store: cannot read a log: %w", err)
		}
		name := filepath.Base(log.Path)
		if len(content) < HeaderBytes {
			return "", format.Damaged("%s is cut to %d bytes", name, len(content))
		}
		header, body := content[:HeaderBytes], content[HeaderBytes:]
		read := Scan(body)
		if synced := watermark.Positions[string(header)].End; int64(read.Committed) < synced {
			return "", format.Damaged("%s was synced up to byte %d but is readable only up to %d", name, synced+HeaderBytes, read.Committed+HeaderBytes)
		}
		left := TrimZeros(body[read.End:])
		if len(left) == 0 && read.Committed == read.End {
			continue
		}
		if onlyKilled && (i < len(logs)-1 || len(left) > tornBytes || holdsEntry(left)) {
			return "", format.Damaged("%s is unreadable beyond byte %d, and more was written after it", name, read.Committed+HeaderBytes)
		}
		remark = fmt.Sprintf("%s ends with %d bytes of an unfinished write, which was left out", name, read.End-read.Committed+len(left))
	}
	return remark, nil
}

var zeros [4096]byte

// TrimZeros cuts the zeros off the end of b: of a log of 16 MiB they are nearly all.
func TrimZeros(b []byte) []byte {
	for len(b) >= len(zeros) && bytes.Equal(b[len(b)-len(zeros):], zeros[:]) {
		b = b[:len(b)-len(zeros)]
	}
	return bytes.TrimRight(b, "\x00")
}

// LostVersion returns the newest version in a log that was fsynced and is missing, 0 if none is.
// Such a log became a table, which holds that version or a newer one, or it is lost.
func LostVersion(dir string) (version uint64, err error) {
	watermark := ReadWatermark(dir)
	for _, log := range List(dir) {
		header, err := readHeader(log.Path)
		if err != nil {
			return 0, fmt.Errorf("store: cannot read a log: %w", err)
		}
		delete(watermark.Positions, header)
	}
	for _, position := range watermark.Positions {
		version = max(version, position.Version)
	}
	return version, nil
}
