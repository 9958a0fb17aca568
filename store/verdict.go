package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-metrics/sluice/store/format"
)

// A verdict is how something ended in the child.
type verdict byte

const (
	verdictWell verdict = iota
	verdictFailed
	verdictDamaged
	verdictFormat
	verdictNoRoom
	verdictClosing
)

// mostVerdict bounds the text of a verdict.
const mostVerdict = 64 << 10

// tell writes a verdict.
func tell(out io.Writer, err error) error {
	how, text := verdictWell, ""
	if err != nil {
		how, text = verdictFailed, err.Error()
		text = text[:min(len(text), mostVerdict)]
	}
	switch {
	case errors.Is(err, format.ErrDamaged):
		how = verdictDamaged
	case errors.Is(err, format.ErrVersion):
		how = verdictFormat
	case errors.Is(err, errNoRoom):
		how = verdictNoRoom
	case errors.Is(err, errClosing):
		how = verdictClosing
	}
	answer := binary.BigEndian.AppendUint32([]byte{byte(how)}, uint32(len(text)))
	_, failure := out.Write(append(answer, text...))
	return failure
}

// readVerdict waits for a verdict; err says why there is none.
func readVerdict(from io.Reader) (said, err error) {
	var head [5]byte
	_, err = io.ReadFull(from, head[:])
	size := binary.BigEndian.Uint32(head[1:])
	if err == nil && size > mostVerdict {
		err = fmt.Errorf("an answer of %d bytes", size)
	}
	text := make([]byte, min(size, mostVerdict))
	if err == nil {
		_, err = io.ReadFull(from, text)
	}
	if err != nil {
		return nil, err
	}
	switch verdict(head[0]) {
	case verdictWell:
		return nil, nil
	case verdictDamaged:
		return format.Damaged("%s", strings.TrimPrefix(string(text), format.Damaged("").Error())), nil
	case verdictFormat:
		return fmt.Errorf("%w: %s", format.ErrVersion, text), nil
	case verdictNoRoom:
		return fmt.Errorf("%w: %s", errNoRoom, strings.TrimPrefix(string(text), errNoRoom.Error()+": ")), nil
	case verdictClosing:
		return errClosing, nil
	}
	return errors.New(string(text)), nil
}
