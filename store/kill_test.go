package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	childBlocks = 40
	childSeries = 64
)

// childMain increments every series, and prints a number once the store reports it on disk, until
// it is killed.
func childMain(dir string) error {
	model := newModel(0)
	cfg := testConfig(dir)
	cfg.FlushInterval = minFlushInterval
	s, err := Open(context.Background(), cfg, Parts{Table: model, Logger: quiet()})
	if err != nil {
		return err
	}
	go func() { fmt.Println("ended:", s.Run(context.Background())) }()
	number, err := model.common()
	if err != nil {
		return err
	}
	model.add(childBlocks - len(model.blocks))
	fmt.Println("restored", number)
	for {
		number++
		for block := range childBlocks {
			for slot := range uint16(childSeries) {
				model.put(block, slot, fmt.Sprintf("series.%d", slot), strconv.Itoa(number)+strings.Repeat(" ", 300))
			}
		}
		if err := s.Sync(context.Background()); err != nil {
			return err
		}
		fmt.Println("synced", number)
	}
}

// common is the lowest of the numbers that a child left.
func (m *modelTable) common() (int, error) {
	lowest := -1
	for i, b := range m.blocks {
		for slot, series := range b.series {
			number, err := strconv.Atoi(strings.TrimSpace(series.value))
			if err != nil {
				return 0, fmt.Errorf("block %d slot %d: %w", i, slot, err)
			}
			if lowest < 0 || number < lowest {
				lowest = number
			}
		}
	}
	return max(lowest, 0), nil
}

// TestKill kills a persisting process again and again in one folder: all that Sync acknowledged is
// there (S5), and the folder needs no repair.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 4
	}
	dir := t.TempDir()
	acknowledged := 0
	for round := range rounds {
		from := "synced" // so that something is acknowledged, however slow the machine is
		if round%2 == 1 {
			from = "restored"
		}
		acknowledged = max(acknowledged, runAndKill(t, dir, from, time.Duration(100+rand.IntN(400))*time.Millisecond))
		restored := newModel(0)
		s := mustOpenLocal(t, dir, restored)
		number, err := restored.common()
		if err != nil || number < acknowledged {
			t.Fatalf("round %d: %d was synced, restored %d (%v)", round, acknowledged, number, err)
		}
		mustLoseNothing(t, s)
		mustClose(t, s)
	}
	if acknowledged < rounds/2 {
		t.Fatalf("only %d syncs in %d rounds", acknowledged, rounds)
	}
	t.Logf("%d syncs in %d rounds", acknowledged, rounds)
}

// runAndKill kills a child some time after it first printed a word. It returns the highest number
// that the child reported as synced.
func runAndKill(t *testing.T, dir, from string, life time.Duration) (acknowledged int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	must(t, err)
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		if word == from && timer == nil {
			timer = time.AfterFunc(life, func() { _ = child.Process.Kill() })
		}
		switch word {
		case "restored":
		case "synced":
			acknowledged, _ = strconv.Atoi(number)
		default:
			t.Errorf("child said: %s", lines.Text())
		}
	}
	_ = child.Wait()
	if timer == nil {
		t.Fatal("the child did not begin")
	}
	timer.Stop()
	return acknowledged
}
