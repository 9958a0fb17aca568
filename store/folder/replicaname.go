package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/internal/durable"
)

// ReadReplicaName returns the name of the replica whose data the folder holds; empty: the folder
// names none. The folder may be missing.
func ReadReplicaName(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, ReplicaName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// WriteReplicaName records the name of the replica that counts in the folder from now on.
func (f *Folder) WriteReplicaName(name string) error {
	if err := durable.WriteFile(filepath.Join(f.Dir, ReplicaName), []byte(name+"\n"), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}
