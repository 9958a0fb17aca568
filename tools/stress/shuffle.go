package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The runtime of the tests has other schedules: a new goroutine runs before the one that started it half of the time, one that
// uses a channel lets others run now and then, and some stand still for up to 10 ms. So a test whose outcome depends on which
// goroutine comes first fails, where a slow machine alone would run them in the usual order.
const shuffleFunction = `
func shuffle(of uint32) {
	gp := getg()
	if !mainStarted || gp == gp.m.g0 || gp == gp.m.gsignal || gp.m.locks != 0 || gp.m.mallocing != 0 || gp.m.preemptoff != "" {
		return
	}
	if r := cheaprandn(of * 64); r == 1 {
		usleep(1000 * (1 + cheaprandn(10)))
	} else if r%of == 0 {
		goschedguarded()
	}
}
`

// edit replaces text in a file of the runtime.
type edit struct{ file, old, new string }

var edits = []edit{
	{"proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = true"},
	{"proc.go", "			wakep()\n		}\n	})\n}\n\n// Create a new g", "			wakep()\n		}\n	})\n	shuffle(2)\n}\n" + shuffleFunction + "\n// Create a new g"},
	{"chan.go", "func chansend1(c *hchan, elem unsafe.Pointer) {\n", "func chansend1(c *hchan, elem unsafe.Pointer) {\n	shuffle(16)\n"},
	{"chan.go", "func chanrecv1(c *hchan, elem unsafe.Pointer) {\n", "func chanrecv1(c *hchan, elem unsafe.Pointer) {\n	shuffle(16)\n"},
	{"chan.go", "func closechan(c *hchan) {\n", "func closechan(c *hchan) {\n	shuffle(8)\n"},
}

// overlay writes the changed files to a folder, and returns the file that names them for "go build -overlay".
func overlay(folder string) (file string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime")
	replace := map[string]string{}
	for _, e := range edits {
		from, to := filepath.Join(source, e.file), filepath.Join(folder, e.file)
		read := to
		if replace[from] == "" {
			read, replace[from] = from, to
		}
		text, err := os.ReadFile(read)
		if err != nil {
			return "", err
		}
		if strings.Count(string(text), e.old) != 1 {
			return "", fmt.Errorf("%s must have once: %s; this version of Go needs other edits, or -shuffle=false", from, e.old)
		}
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o644); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, "overlay.json")
	return file, os.WriteFile(file, list, 0o644)
}
