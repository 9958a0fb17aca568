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

// release describes the image, except for the binaries.
type release struct {
	version   string
	commit    string
	created   time.Time
	documents []string // paths
}

// program is a binary for one platform.
type program struct{ os, architecture, path string }

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var made release
	flags.StringVar(&made.version, "version", "", "version of the binaries, and tag of the image")
	flags.StringVar(&made.commit, "commit", "", "commit of the binaries")
	created := flags.Int64("created", 0, "time of everything in the image, in Unix seconds (SOURCE_DATE_EPOCH)")
	out := flags.String("out", "", "path of the image")
	flags.Func("document", "licence text to put into the image; may be repeated", func(path string) error {
		made.documents = append(made.documents, path)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if made.version == "" || *out == "" || flags.NArg() == 0 {
		return errors.New("-version, -out and at least one OS/ARCHITECTURE=BINARY are required")
	}
	made.created = time.Unix(*created, 0).UTC()
	programs, err := parsePrograms(flags.Args())
	if err != nil {
		return err
	}
	content, err := made.write(programs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MiB, %d platforms\n", *out, float64(len(content))/(1<<20), len(programs))
	return os.WriteFile(*out, content, 0o644)
}

func (r release) write(programs []program) ([]byte, error) {
	index, err := r.index(programs)
	if err != nil {
		return nil, err
	}
	return r.archive(index)
}

func parsePrograms(args []string) (programs []program, err error) {
	for _, arg := range args {
		platform, path, ok := strings.Cut(arg, "=")
		system, architecture, alsoOK := strings.Cut(platform, "/")
		if !ok || !alsoOK {
			return nil, fmt.Errorf("%q is not OS/ARCHITECTURE=BINARY, such as linux/amd64=bin/sluice", arg)
		}
		programs = append(programs, program{system, architecture, path})
	}
	return programs, nil
}
