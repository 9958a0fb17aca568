package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	// share of each processor that the companion takes, in slices of busyEvery.
	share     = 0.9
	busyEvery = 100 * time.Millisecond
	// A test process runs for up to longestRun and is then stopped for up to longestStop.
	longestRun, longestStop = 10 * time.Second, 3 * time.Second
	// timeout of a run ends what hangs.
	timeout = "60m"
)

// result is what the runs of a package came to.
type result struct {
	pkg    string
	runs   int
	failed []int // the numbers of the runs, from 1
	log    string
	took   time.Duration
}

func main() {
	count := flag.Int("count", 20, "runs of each package")
	folder := flag.String("folder", ".", "folder of the module whose packages are tested")
	logs := flag.String("logs", filepath.Join(os.TempDir(), "sluice-stress"), "folder of the logs of runs that failed")
	shuffled := flag.Bool("shuffle", true, "change the order in which goroutines run")
	flag.Parse()
	if err := stress(*folder, *logs, *count, *shuffled, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func stress(folder, logs string, count int, shuffled bool, patterns []string) error {
	binaries, err := os.MkdirTemp("", "sluice-stress-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	build := builder{folder: folder, binary: filepath.Join(binaries, "test")}
	if shuffled {
		if build.overlay, err = overlay(binaries); err != nil {
			return err
		}
	}
	packages, err := packagesWithTests(folder, patterns)
	if err != nil {
		return err
	}
	for range runtime.NumCPU() {
		go beBusy()
	}
	var results []result
	for _, pkg := range packages {
		r, err := test(build, pkg, logs, count)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d of %d runs failed, %v\n", r.pkg, len(r.failed), r.runs, r.took.Round(time.Second))
		results = append(results, r)
	}
	return print(results)
}

// beBusy takes its share of a processor for as long as the process lives.
func beBusy() {
	busy := time.Duration(share * float64(busyEvery))
	for {
		for began := time.Now(); time.Since(began) < busy; {
		}
		time.Sleep(busyEvery - busy)
	}
}

// packagesWithTests are pairs of an import path and a folder, split by a space.
func packagesWithTests(folder string, patterns []string) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`
	cmd := exec.Command("go", append([]string{"list", "-f", format}, patterns...)...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), err
}

// builder builds the tests of a package into one binary.
type builder struct {
	folder, binary string
	overlay        string // a file; empty: none
}

func (b builder) build(path string) error {
	args := []string{"test", "-c", "-o", b.binary}
	if b.overlay != "" {
		args = append(args, "-overlay", b.overlay)
	}
	cmd := exec.Command("go", append(args, path)...)
	cmd.Dir, cmd.Stderr = b.folder, os.Stderr
	return cmd.Run()
}

func test(b builder, pkg, logs string, count int) (r result, err error) {
	path, dir, _ := strings.Cut(pkg, " ")
	if err := b.build(path); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r = result{pkg: path, runs: count, log: filepath.Join(logs, strings.ReplaceAll(path, "/", "_")+".log")}
	_ = os.Remove(r.log)
	began := time.Now()
	for i := range count {
		out, failed := run(b.binary, dir)
		if !failed {
			continue
		}
		r.failed = append(r.failed, i+1)
		file, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return r, err
		}
		fmt.Fprintf(file, "=== run %d\n%s\n", i+1, out)
		if err := file.Close(); err != nil {
			return r, err
		}
	}
	r.took = time.Since(began)
	return r, nil
}

// run runs a package's tests in a process group of their own, which is stopped at random.
func run(binary, dir string) (out string, failed bool) {
	var b strings.Builder
	cmd := exec.Command(binary, "-test.timeout", timeout)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &b, &b
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err.Error(), true
	}
	ended, stopping := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopping)
		stopAtRandom(cmd.Process.Pid, ended)
	}()
	err := cmd.Wait()
	close(ended)
	<-stopping
	return b.String(), err != nil
}

func stopAtRandom(group int, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(rand.N(longestRun)):
		}
		_ = syscall.Kill(-group, syscall.SIGSTOP) // the group may have ended
		time.Sleep(rand.N(longestStop))
		_ = syscall.Kill(-group, syscall.SIGCONT)
	}
}

// print prints a row for each package, the failed ones last, and returns an error if there are some.
func print(results []result) error {
	slices.SortStableFunc(results, func(a, b result) int { return len(a.failed) - len(b.failed) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tRUNS\tFAILED\tTIME\tLOG")
	failed := 0
	for _, r := range results {
		log := ""
		if len(r.failed) > 0 {
			log, failed = r.log, failed+1
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%v\t%s\n", r.pkg, r.runs, len(r.failed), r.took.Round(time.Second), log)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("tests of %d packages failed", failed)
	}
	return nil
}
