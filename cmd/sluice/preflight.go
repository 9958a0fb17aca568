package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/store"
	"golang.org/x/sys/unix"
)

// checkDataFolder finds faults of the data folder before any port is opened: a second server that
// is started by mistake then reports the folder in use, not a port. It changes nothing, and the
// store checks again.
func (p *dataPath) checkDataFolder(context.Context) error {
	dir, err := filepath.Abs(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	if err := store.CheckFolder(dir); err != nil {
		return p.folderFault(err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil && !errors.Is(err, fs.ErrNotExist) { // the store creates a missing folder
		return p.folderFault(fmt.Errorf("cannot be written to: %w", err))
	}
	return nil
}

func (p *dataPath) folderFault(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s %s: %w", p.cfg.as("data-dir"), p.cfg.store.Dir, err)
}

// storeFault names the setting if the store could not use its folder.
func (p *dataPath) storeFault(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s %s: %s", p.cfg.as("data-dir"), p.cfg.store.Dir, strings.TrimPrefix(err.Error(), "store: "))
}

// checkCertificate finds faults of the serving certificate before any port is opened. The adapter
// reads the file again.
func (p *dataPath) checkCertificate(context.Context) error {
	file, key := p.cfg.api.CertFile, p.cfg.api.KeyFile
	if file == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(file, key); err != nil {
		return p.cfg.fault("api-cert-file", "%s, %s %s: %v; must be a certificate and its key, in PEM",
			file, p.cfg.as("api-key-file"), key, err)
	}
	return nil
}
