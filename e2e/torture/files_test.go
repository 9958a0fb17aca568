package torture

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// TestDamagedFiles cuts and flips every file of a killed server's data folder at many places. Each
// time the server starts, or refuses with a message that names the fault. It deletes nothing,
// never serves a value that never existed, and says so where the last values are missing.
func TestDamagedFiles(t *testing.T) {
	master := makeMaster(t)
	var outcomes damageOutcomes
	t.Run("all", func(t *testing.T) { // returns when those in it have ended, which run side by side
		for _, file := range filesOf(t, master) {
			for _, d := range damages(t, filepath.Join(master, file)) {
				t.Run(file+" "+d.name, func(t *testing.T) {
					t.Parallel()
					s := server.New(t)
					must(t, os.CopyFS(s.DataDir(), os.DirFS(master)), "copy the folder")
					must(t, d.do(filepath.Join(s.DataDir(), file)), "damage the file")
					outcomes.judge(t, s)
					s.Kill()
				})
			}
		}
	})
	whole, told, refused := outcomes.whole.Load(), outcomes.told.Load(), outcomes.refused.Load()
	figure(t, "%d damages: %d times all values were there, %d times the database was set aside or cut and said so, %d times refused with a message",
		whole+told+refused, whole, told, refused)
}

// lastValue is the final value of the master's metrics; any lower value is an older state.
const lastValue = 5

// makeMaster returns the data folder of a server that was stopped once and then killed: it has
// tables and logs. All values in it were acknowledged.
func makeMaster(t *testing.T) string {
	t.Helper()
	s := server.New(t)
	s.Start()
	fill(t, s, 2000)
	for i := range lastValue {
		if i == 3 {
			s.Stop()
			s.Start()
		}
		s.PutSynced("e2e", "depth", float64(i+1))
		must(t, push(s, http.MethodPost, "paid?sync=true", 1), "push")
	}
	s.Kill()
	master := filepath.Join(t.TempDir(), "master")
	must(t, os.CopyFS(master, os.DirFS(s.DataDir())), "keep the folder")
	return master
}

func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			name, _ := filepath.Rel(dir, path)
			files = append(files, name)
		}
		return err
	}), "list the folder")
	return files
}

// A damage is a change of one file.
type damage struct {
	name string
	do   func(path string) error
}

// damages are cuts and flips from the beginning to the end of a file's content.
func damages(t *testing.T, path string) []damage {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err, "read %s", path)
	held := len(bytes.TrimRight(content, "\x00")) // logs are given their room ahead
	all := []damage{{"missing", os.Remove}}
	places := server.ShortOrLong(3, 40)
	seen := map[int]bool{}
	for i := range places {
		at := max(0, held-1) * i / (places - 1)
		if seen[at] {
			continue
		}
		seen[at] = true
		all = append(all, damage{fmt.Sprintf("cut to %d of %d bytes", at, len(content)), func(path string) error { return os.Truncate(path, int64(at)) }})
		if at < len(content) {
			all = append(all, damage{fmt.Sprintf("byte %d of %d flipped", at, len(content)), func(path string) error { return flip(path, int64(at)) }})
		}
	}
	return all
}

func flip(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var one [1]byte
	if _, err := file.ReadAt(one[:], at); err != nil {
		return err
	}
	one[0] ^= 0xff
	_, err = file.WriteAt(one[:], at)
	return err
}

// damageOutcomes count the results of the starts.
type damageOutcomes struct{ whole, told, refused atomic.Int64 }

func (o *damageOutcomes) judge(t *testing.T, s *server.Server) {
	before := filesOf(t, s.DataDir())
	if err := s.TryStart(); err != nil {
		o.refused.Add(1)
		if !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), s.DataDir()) {
			t.Errorf("the server did not start, and its message does not name the file or its folder: %v", err)
		}
		nothingGone(t, s.DataDir(), before)
		return
	}
	says := storeSays(s)
	isAside := strings.Contains(says, "set aside")
	if isAside {
		nothingGone(t, s.DataDir(), before)
	}
	isWhole := true
	for _, metric := range []string{"depth", "paid:total"} {
		value, isThere := readBack(t, s, metric)
		isWhole = isWhole && isThere && value == lastValue
		if isThere && (value < 1 || value > lastValue || value != float64(int(value))) {
			t.Errorf("%s is %v, which it never was; /readyz says %s", metric, value, says)
		}
	}
	switch {
	case isWhole && !isAside:
		o.whole.Add(1)
	case isAside || strings.Contains(says, "unfinished") || strings.Contains(says, "could not"):
		o.told.Add(1)
	default:
		t.Errorf("the values are not there, and /readyz does not say so: %s", says)
	}
	if got := s.Sum("depth"); isWhole && got != lastValue {
		_, err := s.External("depth")
		t.Errorf("the metrics API says %v (%v), want %d", got, err, lastValue)
	}
}

// nothingGone requires each file to be in its place or in a database that was set aside. Empty
// logs hold nothing.
func nothingGone(t *testing.T, dir string, before []string) {
	t.Helper()
	now := map[string]bool{}
	for _, file := range filesOf(t, dir) {
		now[file] = true
		if folder, name := filepath.Split(file); strings.HasPrefix(folder, "badger.") {
			now[filepath.Join("badger", name)] = true
		}
	}
	for _, file := range before {
		if !now[file] {
			t.Errorf("%s is gone", file)
		}
	}
}

// readBack reads a metric over HTTP, from the push port.
func readBack(t *testing.T, s *server.Server, metric string) (value float64, isThere bool) {
	t.Helper()
	resp, err := client.Get("http://" + s.HTTP + "/v1/namespaces/e2e/external/" + metric)
	must(t, err, "read %s back", metric)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err, "read %s back", metric)
	if resp.StatusCode == http.StatusNotFound {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(body), `"value":`)
	rest = strings.Trim(strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == '}' })[0], `" `)
	value, err = strconv.ParseFloat(rest, 64)
	if !ok || err != nil {
		t.Fatalf("%s reads back as %s %s", metric, resp.Status, body)
	}
	return value, true
}
