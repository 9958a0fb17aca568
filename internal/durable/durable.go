package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// TempSuffix ends the temporary name under which a file is written first. A power cut may leave
// such a file behind; the next WriteFile of the same path overwrites it.
const TempSuffix = ".new"

// WriteFile replaces a file as a whole and returns when content and name are on disk. It writes a
// temporary file beside it, fsyncs that, renames it and fsyncs the folder. If it fails before the
// rename, the file stays unchanged.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	temp := path + TempSuffix
	err := writeSynced(temp, content, mode)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the error that counts is the first one
		return err
	}
	return Sync(filepath.Dir(path))
}

func writeSynced(path string, content []byte, mode fs.FileMode) error {
	// A file that a power cut left behind may have another mode.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// MkdirAll creates a folder and its missing parents, as os.MkdirAll does, and fsyncs the folder
// that holds each new one.
func MkdirAll(dir string, mode fs.FileMode) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	switch _, err := os.Stat(dir); {
	case err == nil, parent == dir:
		return os.MkdirAll(dir, mode) // says what is wrong where it is a file
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := MkdirAll(parent, mode); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return Sync(parent)
}

// Sync fsyncs the content of a file, or the names in a folder.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// IsFull reports whether an error means that the disk, or a quota, is full.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
