// Release writes the files of a release from the files that "make release" built. It writes an
// archive and an SPDX list per binary and platform, the chart, the image, the licence texts, a Homebrew
// formula, a krew manifest and SHA256SUMS.
//
//	go run ./release -version V -commit C -created UNIXTIME -url BASE -chart FILE -image FILE \
//	    -license FILE -notices FILE -out DIR linux/amd64/sluice=BINARY linux/amd64/kubectl-sluice=BINARY
//
// The same input makes the same bytes. Release builds and uploads nothing.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/tools/sbom"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is the input of the command.
type release struct {
	version, commit, url                string
	created                             time.Time
	chart, image, license, notices, out string // paths
	programs                            []program
	sums                                map[string]string // SHA-256 of each written file
}

// program is a binary for one platform.
type program struct{ os, architecture, name, path string }

// The binaries of a release.
const (
	server = "sluice"
	plugin = "kubectl-sluice"
)

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{sums: map[string]string{}}
	flags.StringVar(&r.version, "version", "", "version of the release")
	flags.StringVar(&r.commit, "commit", "", "commit of the release")
	created := flags.Int64("created", 0, "time of everything in the archives, in Unix seconds (SOURCE_DATE_EPOCH)")
	flags.StringVar(&r.url, "url", "", "URL of the folder that the files are downloaded from")
	flags.StringVar(&r.chart, "chart", "", "packaged chart")
	flags.StringVar(&r.image, "image", "", "image")
	flags.StringVar(&r.license, "license", "", "licence of the project")
	flags.StringVar(&r.notices, "notices", "", "licence texts of third parties")
	flags.StringVar(&r.out, "out", "", "output folder, which must not exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, required := range []string{"version", "url", "chart", "image", "license", "notices", "out"} {
		if flags.Lookup(required).Value.String() == "" {
			return fmt.Errorf("-%s is required", required)
		}
	}
	r.created = time.Unix(*created, 0).UTC()
	for _, arg := range flags.Args() {
		platform, path, ok := strings.Cut(arg, "=")
		parts := strings.Split(platform, "/")
		if !ok || len(parts) != 3 || parts[2] != server && parts[2] != plugin {
			return fmt.Errorf("%q is not OS/ARCHITECTURE/NAME=BINARY, such as linux/amd64/sluice=bin/sluice", arg)
		}
		r.programs = append(r.programs, program{parts[0], parts[1], parts[2], path})
	}
	if len(r.programs) == 0 {
		return errors.New("no binary is given")
	}
	return r.write()
}

func (r *release) write() error {
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	for _, p := range r.programs {
		archive, err := r.archive(p)
		if err != nil {
			return err
		}
		if err := r.add(r.archiveName(p), archive); err != nil {
			return err
		}
		list, err := sbom.List(sbom.Product{
			Version: r.version, Commit: r.commit, Created: r.created, OS: p.os, Architecture: p.architecture, Path: p.path,
		})
		if err != nil {
			return err
		}
		if err := r.add(strings.TrimSuffix(r.archiveName(p), ".tar.gz")+".spdx.json", list); err != nil {
			return err
		}
	}
	chart, err := r.repackedChart()
	if err != nil {
		return fmt.Errorf("%s: %w", r.chart, err)
	}
	if err := r.add("sluice-"+r.version+".tgz", chart); err != nil { // the name that Helm gives the chart
		return err
	}
	for _, copied := range []struct{ from, name string }{
		{r.image, "sluice-" + r.version + "-image.tar"}, {r.notices, "sluice-" + r.version + "-third-party-licenses.txt"},
	} {
		content, err := os.ReadFile(copied.from)
		if err != nil {
			return err
		}
		if err := r.add(copied.name, content); err != nil {
			return err
		}
	}
	if err := r.add("sluice.rb", r.formula()); err != nil {
		return err
	}
	manifest, err := r.krew()
	if err != nil {
		return err
	}
	if err := r.add("sluice.yaml", manifest); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, sumsName), r.checksums(), 0o644)
}

const sumsName = "SHA256SUMS"

// add writes a file of the release.
func (r *release) add(name string, content []byte) error {
	r.sums[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// checksums returns the checksums of all files in the format of sha256sum(1).
func (r *release) checksums() []byte {
	var lines []string
	for name, sum := range r.sums {
		lines = append(lines, sum+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return []byte(strings.Join(lines, ""))
}

func (r *release) archiveName(p program) string {
	return fmt.Sprintf("%s-%s-%s-%s.tar.gz", p.name, r.version, p.os, p.architecture)
}
