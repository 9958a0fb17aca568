package main

import (
	"errors"
	"os"
	"time"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/aggregate/rule"
)

// fileStamp tells versions of a file apart without reading it.
type fileStamp struct {
	modified time.Time
	size     int64
	fault    string
}

// readRules reads a file of rules. The error has all faults.
func readRules(file string) ([]rule.Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents, err := rule.Parse(file, text)
	if err = errors.Join(err, rule.NewSet(documents, labelselector.MatchLabels, nil).Faults()); err != nil {
		return nil, err
	}
	return documents, nil
}

func (b *rulebook) stampOf() fileStamp {
	found, err := os.Stat(b.file)
	if err != nil {
		return fileStamp{fault: err.Error()}
	}
	return fileStamp{modified: found.ModTime(), size: found.Size()}
}

// reread reads rules-file if it changed. A file with a fault changes nothing.
func (b *rulebook) reread() {
	stamp := b.stampOf()
	b.mu.Lock()
	same := stamp == b.stamp
	b.stamp = stamp
	b.mu.Unlock()
	if same {
		return
	}
	documents, err := readRules(b.file)
	if err != nil {
		b.log.Error("rules-file is invalid; the rules of before stay", "file", b.file, "faults", err)
		return
	}
	b.log.Info("read rules-file again", "file", b.file, "rules", len(documents))
	b.replace(func() { b.ofFile = documents })
}
