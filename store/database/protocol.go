package database

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-metrics/sluice/store/format"
)

// This process sends transactions to the storage process through a pipe and waits for the results
// in another one, which holds no thread. Lengths are big-endian uint32.
//
//	to the child     a frame for each transaction: length, then for each entry the operation, the key
//	                 and, if it is set, the value, each after its length
//	from the child   results: first of opening, then of each transaction, last of closing
//
// The end of its input ends the child. fsyncs have a second pair of pipes, so a flush doesn't wait
// for them: a request of one byte to the child, a result from it.

const (
	entrySet    = 's'
	entryDelete = 'd'

	// entryCompact alone is a frame, which begins a compaction.
	entryCompact = 'c'

	requestSync = 's'

	// The child's file descriptors of the pipes for requests, after the lock's (3): see
	// exec.Cmd.ExtraFiles.
	childRequests = 4
	childResults  = 5

	maxFrame      = 16 * MaxTransactionBytes // far beyond a transaction
	maxResultText = 64 << 10
)

func appendPiece(dst, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(piece))), piece...)
}

func cutPiece(from []byte) (piece, rest []byte, err error) {
	if len(from) < 4 || uint64(len(from)-4) < uint64(binary.BigEndian.Uint32(from)) {
		return nil, nil, errors.New("a transaction is cut short")
	}
	end := 4 + int(binary.BigEndian.Uint32(from))
	return from[4:end:end], from[end:], nil
}

// readFrame reads a transaction into buf, or into a larger one.
func readFrame(from *bufio.Reader, buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return buf, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return buf, fmt.Errorf("a transaction has %d bytes; the maximum is %d", size, maxFrame)
	}
	if int(size) > cap(buf) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(from, buf)
	return buf, err
}

// A resultCode is the kind of error in a result. A result is the code, then the error's text after
// its length.
type resultCode byte

const (
	resultOK resultCode = iota
	resultFailed
	resultDamaged
	resultVersion
	resultDiskFull
	resultClosed
)

func writeResult(out io.Writer, err error) error {
	code, text := resultOK, ""
	if err != nil {
		code, text = resultFailed, err.Error()
		text = text[:min(len(text), maxResultText)]
	}
	switch {
	case errors.Is(err, format.ErrDamaged):
		code = resultDamaged
	case errors.Is(err, format.ErrVersion):
		code = resultVersion
	case errors.Is(err, ErrDiskFull):
		code = resultDiskFull
	case errors.Is(err, ErrClosed):
		code = resultClosed
	}
	result := binary.BigEndian.AppendUint32([]byte{byte(code)}, uint32(len(text)))
	_, writeErr := out.Write(append(result, text...))
	return writeErr
}

// readResult waits for a result; err says why there is none.
func readResult(from io.Reader) (result, err error) {
	var head [5]byte
	_, err = io.ReadFull(from, head[:])
	size := binary.BigEndian.Uint32(head[1:])
	if err == nil && size > maxResultText {
		err = fmt.Errorf("a result has %d bytes; the maximum is %d", size, maxResultText)
	}
	text := make([]byte, min(size, maxResultText))
	if err == nil {
		_, err = io.ReadFull(from, text)
	}
	if err != nil {
		return nil, err
	}
	switch resultCode(head[0]) {
	case resultOK:
		return nil, nil
	case resultDamaged:
		return format.Damaged("%s", strings.TrimPrefix(string(text), format.Damaged("").Error())), nil
	case resultVersion:
		return fmt.Errorf("%w: %s", format.ErrVersion, text), nil
	case resultDiskFull:
		return fmt.Errorf("%w: %s", ErrDiskFull, strings.TrimPrefix(string(text), ErrDiskFull.Error()+": ")), nil
	case resultClosed:
		return ErrClosed, nil
	}
	return errors.New(string(text)), nil
}
