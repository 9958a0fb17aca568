package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stallingDisk is a file system whose disk can stall. The disk is a file in another file system,
// which is frozen: reads are answered, writes stay in memory, and a wait for the disk lasts until
// the thaw. The upper file system notices nothing, as with a disk that hangs. Both are loop
// devices, which need root.
type stallingDisk struct {
	dir        string
	beneath    *os.File // root of the file system that is frozen
	mounted    []string // in the order of mounting
	isStalling bool
}

// errNoStall means that this machine cannot have a stalling disk.
var errNoStall = errors.New("a stalling disk needs two file systems on loop devices, and root")

const (
	diskBytes    = 3 << 30 // sparse
	beneathBytes = diskBytes + 512<<20
)

func newStallingDisk(ctx context.Context) (_ *stallingDisk, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: that needs root", errNoStall)
	}
	d := &stallingDisk{}
	if d.dir, err = os.MkdirTemp("", "sluice-loadtest-disk-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.remove())
		}
	}()
	if err := d.mount(ctx, filepath.Join(d.dir, "beneath.img"), "beneath", beneathBytes); err != nil {
		return nil, err
	}
	if err := d.mount(ctx, filepath.Join(d.dir, "beneath", "disk.img"), "disk", diskBytes); err != nil {
		return nil, err
	}
	d.beneath, err = os.Open(filepath.Join(d.dir, "beneath"))
	return d, err
}

// mount makes and mounts a file system in a sparse file.
func (d *stallingDisk) mount(ctx context.Context, image, name string, bytes int64) error {
	at := filepath.Join(d.dir, name)
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes), os.Mkdir(at, 0o700)); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", image},
		{"mount", "-o", "loop", image, at},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %s: %w: %s", errNoStall, strings.Join(command, " "), err, strings.TrimSpace(string(out)))
		}
	}
	d.mounted = append(d.mounted, at)
	return nil
}

// path returns the folder of the file system whose disk stalls.
func (d *stallingDisk) path() string { return filepath.Join(d.dir, "disk") }

// FIFREEZE and FITHAW of linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// stall stops the disk until resume.
func (d *stallingDisk) stall() error {
	if err := unix.IoctlSetInt(int(d.beneath.Fd()), fiFreeze, 0); err != nil {
		return fmt.Errorf("freeze %s: %w", d.beneath.Name(), err)
	}
	d.isStalling = true
	return nil
}

// resume restarts the disk. It does nothing if the disk is running.
func (d *stallingDisk) resume() error {
	if !d.isStalling {
		return nil
	}
	d.isStalling = false
	if err := unix.IoctlSetInt(int(d.beneath.Fd()), fiThaw, 0); err != nil {
		return fmt.Errorf("thaw %s: %w", d.beneath.Name(), err)
	}
	return nil
}

// remove unmounts the file systems; no process may have a file open on them.
func (d *stallingDisk) remove() (err error) {
	if d.beneath != nil {
		err = errors.Join(d.resume(), d.beneath.Close())
	}
	for i := len(d.mounted) - 1; i >= 0 && err == nil; i-- {
		if err = unix.Unmount(d.mounted[i], 0); err != nil {
			err = fmt.Errorf("unmount %s: %w", d.mounted[i], err)
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(d.dir)
}
