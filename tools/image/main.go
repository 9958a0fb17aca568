package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// release is what is said of the image beside its content.
type release struct {
	version string
	commit  string
	created time.Time
}

// program is a binary for one platform.
type program struct {
	os, architecture string
	path             string
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var made release
	flags.StringVar(&made.version, "version", "", "version of the binaries, and tag of the image")
	flags.StringVar(&made.commit, "commit", "", "commit that they were built from")
	created := flags.Int64("created", 0, "every time in the image, Unix seconds; SOURCE_DATE_EPOCH")
	out := flags.String("out", ".", "folder for the image and the lists of its parts")
	license := flags.String("license", "LICENSE", "file of the licence")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if made.version == "" || flags.NArg() == 0 {
		return errors.New("want -version, and OS/ARCHITECTURE=BINARY at least once")
	}
	made.created = time.Unix(*created, 0).UTC()
	programs, err := parsePrograms(flags.Args())
	if err != nil {
		return err
	}
	return writeAll(made, programs, *license, *out)
}

func parsePrograms(args []string) (programs []program, err error) {
	for _, arg := range args {
		platform, path, ok := strings.Cut(arg, "=")
		system, architecture, alsoOK := strings.Cut(platform, "/")
		if !ok || !alsoOK {
			return nil, fmt.Errorf("%q: want OS/ARCHITECTURE=BINARY, for example linux/amd64=bin/sluice", arg)
		}
		programs = append(programs, program{system, architecture, path})
	}
	return programs, nil
}

func writeAll(made release, programs []program, license, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	name := filepath.Join(out, "sluice-"+made.version)
	for _, p := range programs {
		list, err := bill(made, p)
		if err != nil {
			return err
		}
		path := fmt.Sprintf("%s-%s-%s.spdx.json", name, p.os, p.architecture)
		if err := os.WriteFile(path, list, 0o644); err != nil {
			return err
		}
	}
	l := newLayout(made)
	for _, p := range programs {
		if err := l.add(p, license); err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.architecture, err)
		}
	}
	text, err := l.tar()
	if err != nil {
		return err
	}
	fmt.Printf("%s.tar: %.1f MiB for %d platforms\n", name, float64(len(text))/(1<<20), len(programs))
	return os.WriteFile(name+".tar", text, 0o644)
}
