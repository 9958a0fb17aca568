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

// checkDataFolder finds what would stop the store, before any port is opened: who starts a second server by
// mistake is told that, and not that a port is taken. It changes nothing, and settles nothing: the store looks
// again.
func (p *dataPath) checkDataFolder(context.Context) error {
	dir, err := filepath.Abs(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	if err := store.CheckFolder(dir); err != nil {
		return p.folderFault(err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil && !errors.Is(err, fs.ErrNotExist) { // the store makes it, or says why not
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

// storeFault names the setting where the store could not use its folder, and says what it could not do there.
func (p *dataPath) storeFault(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s %s: %s", p.cfg.as("data-dir"), p.cfg.store.Dir, strings.TrimPrefix(err.Error(), "store: "))
}

// checkCertificate finds what is wrong with the serving certificate before any port is opened. The adapter reads it again,
// now and whenever it changes.
func (p *dataPath) checkCertificate(context.Context) error {
	file, key := p.cfg.api.CertFile, p.cfg.api.KeyFile
	if file == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(file, key); err != nil {
		return fmt.Errorf("--api-cert-file %s, --api-key-file %s: %w; want a certificate and its key, PEM", file, key, err)
	}
	return nil
}
