package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "figures", "folder for figures.md, cost.svg, latency.svg and memory.svg")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: loadplot [-out FOLDER] REPORT.json...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "loadplot:", err)
		os.Exit(1)
	}
}

func run(paths []string, out string) error {
	if len(paths) == 0 {
		return errors.New("no report is given; must be one or more files that sluice-loadtest -o json wrote")
	}
	var reports []report
	var all entries
	for _, path := range paths {
		r, err := readReport(path)
		if err != nil {
			return err
		}
		reports = append(reports, r)
		all = append(all, r.Entries...)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "figures.md"), []byte(tables(reports, all)), 0o644); err != nil {
		return err
	}
	for name, draw := range map[string]func(entries) string{
		"cost.svg": drawCost, "latency.svg": drawLatencies, "memory.svg": drawMemory,
	} {
		if err := writePicture(filepath.Join(out, name), draw(all)); err != nil {
			return err
		}
	}
	return nil
}

// writePicture writes a picture, or removes that of an earlier run if there is nothing to draw.
func writePicture(path, picture string) error {
	if picture != "" {
		return os.WriteFile(path, []byte(picture), 0o644)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
