package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// MaxDeaths is how often in a row the process may die between BeginRestore and EndRestore. The
// probe finds a database that kills the process which opens it; this count finds one whose restored
// values do, for instance by the memory that they take. A death during the probe isn't counted:
// nothing of the database has been used by then. Nor is an end that was requested. A later SIGKILL
// counts, because the OOM killer's can't be told from any other.
const MaxDeaths = 3

// BeginRestore counts a restore that hasn't ended. Its error is format.ErrDamaged after MaxDeaths
// deaths.
func (f *Folder) BeginRestore() error {
	path := filepath.Join(f.Dir, RestoreName)
	text, _ := os.ReadFile(path)
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if before >= MaxDeaths {
		return format.Damaged("the process died %d times while it restored from it", before)
	}
	if err := durable.WriteFile(path, strconv.AppendInt(nil, int64(before+1), 10), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}

// EndRestore clears the count: the restore has ended, be it by an error that the process survived.
func (f *Folder) EndRestore() error {
	err := os.Remove(filepath.Join(f.Dir, RestoreName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return nil
}
