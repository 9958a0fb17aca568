// Notices writes the licence texts of everything that is linked into sluice on the given platforms:
// the Go standard library, every module, and the console's uPlot.
//
//	go run ./notices -source .. -out FILE linux/amd64 darwin/arm64
//
// A text that several modules share is written once, below their names. A module without a licence
// text is an error.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	source := flag.String("source", "..", "root of the repository")
	out := flag.String("out", "THIRD_PARTY_LICENSES", "path of the output")
	flag.Parse()
	if err := run(*source, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(source, out string, platforms []string) error {
	if len(platforms) == 0 {
		return errors.New("no platform is given; must be one or more OS/ARCHITECTURE")
	}
	folders := map[string]map[string]bool{} // by module: the folders of linked packages, and all folders above
	for _, platform := range platforms {
		if err := linked(source, platform, folders); err != nil {
			return err
		}
	}
	// The console's plots are a file of the repository, not a module.
	folders["uPlot"] = map[string]bool{filepath.Join(source, "adapter", "console", "assets"): true}
	text, err := notices(folders)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// linked adds the folders of all modules that the binary links on a platform.
func linked(source, platform string, folders map[string]map[string]bool) error {
	system, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("platform is %q; must be OS/ARCHITECTURE", platform)
	}
	const format = `{{if .Module}}{{if not .Module.Main}}{{.Module.Path}} {{.Module.Version}}|{{.Module.Dir}}|{{.Dir}}{{end}}{{else}}{{if .Goroot}}Go|{{.Root}}|{{.Root}}{{end}}{{end}}`
	list := exec.Command("go", "list", "-deps", "-f", format, "./cmd/sluice")
	list.Dir = source
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	var complaints bytes.Buffer
	list.Stderr = &complaints
	text, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w\n%s", err, &complaints)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			continue // a package of the repository itself
		}
		module, top, folder := fields[0], fields[1], fields[2]
		if folders[module] == nil {
			folders[module] = map[string]bool{}
		}
		for ; len(folder) >= len(top); folder = filepath.Dir(folder) {
			folders[module][folder] = true
		}
	}
	return nil
}

var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]es?|copying|notice|patents)([.-].*)?$`)

// notices returns every licence text, each below the names of the modules that use it.
func notices(folders map[string]map[string]bool) ([]byte, error) {
	modules := map[string][]string{} // by text
	for _, module := range slices.Sorted(maps.Keys(folders)) {
		found := false
		for _, folder := range slices.Sorted(maps.Keys(folders[module])) {
			entries, err := os.ReadDir(folder)
			if err != nil {
				return nil, err
			}
			for _, entry := range entries {
				if !entry.Type().IsRegular() || !licenceName.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
					continue
				}
				text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
				if err != nil {
					return nil, err
				}
				key := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
				if !slices.Contains(modules[key], module) {
					modules[key] = append(modules[key], module)
				}
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence text", module)
		}
	}
	texts := slices.SortedFunc(maps.Keys(modules), func(a, b string) int {
		if order := slices.Compare(modules[a], modules[b]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	var out bytes.Buffer
	out.WriteString("Sluice contains the following software under the licences below.\n")
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(modules[text], "\n"), text)
	}
	return out.Bytes(), nil
}
