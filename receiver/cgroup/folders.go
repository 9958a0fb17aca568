package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// podsFolders are the places of the folder of all pods below the root. The last two are those of a kubelet with a
// cgroup root of its own, as in kind.
var podsFolders = []string{"kubepods.slice", "kubepods", "*/kubepods", "*.slice/*-kubepods.slice"}

// findPods finds the folder of all pods. The error says what is there instead.
func findPods(root string) (string, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		if _, v1 := os.Stat(filepath.Join(root, "memory")); v1 == nil {
			return "", fmt.Errorf("%s has the folders of cgroup v1; must be cgroup v2. "+
				"Have the kubelet asked instead (--kubelet-address)", root)
		}
		return "", fmt.Errorf("%s has no file cgroup.controllers (%w); must be the root of cgroup v2, "+
			"usually /sys/fs/cgroup of the node", root, err)
	}
	for _, place := range podsFolders {
		if found, _ := filepath.Glob(filepath.Join(root, place)); len(found) > 0 { // the pattern is right
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s has no folder of pods (%s); must be the root of the node's cgroups, not that of a container",
		root, strings.Join(podsFolders, ", "))
}

// containers calls a function for the folder of each container below a folder of pods. A folder that has gone
// meanwhile has none.
func containers(folder string, do func(id, folder string)) error {
	return eachFolder(folder, func(name, path string) error {
		switch class := classOf(name); {
		case strings.HasPrefix(class, "pod"):
			return eachFolder(path, func(name, path string) error {
				if id, ok := idOf(name); ok {
					do(id, path)
				}
				return nil
			})
		case class == "burstable" || class == "besteffort":
			return containers(path, do)
		}
		return nil
	})
}

func eachFolder(folder string, do func(name, path string) error) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return unlessGone(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := do(entry.Name(), filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlessGone ignores that something does not exist any more.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || isRemoved(err) {
		return nil
	}
	return err
}

// classOf is the last part of the name of a pod's or a class's folder: a slice has its parents' names, too.
func classOf(name string) string {
	if slice, ok := strings.CutSuffix(name, ".slice"); ok {
		return slice[strings.LastIndexByte(slice, '-')+1:]
	}
	return name
}

// idOf finds the ID in the name of a container's folder. CRI-O has one more folder beside each container, of the process that
// watches it.
func idOf(name string) (id string, ok bool) {
	name = strings.TrimSuffix(name, ".scope")
	runtime, id := "", name
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		runtime, id = name[:at], name[at+1:]
	}
	return id, isID(id) && !strings.HasSuffix(runtime, "conmon")
}

// isID reports whether a text is 64 hexadecimal digits, as all container runtimes of Kubernetes have them.
func isID(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}
