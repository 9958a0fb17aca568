package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// noted makes a stage that takes a second to finish once it is stopped, and notes when it has.
func noted(name string, into *[]string) stage {
	return stage{name, func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(time.Second)
		*into = append(*into, name) // no lock: only one stage stops at a time, which is what is tested
		return nil
	}}
}

func TestStagesStopInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		ctx, cancel := context.WithCancel(context.Background())
		stages := []stage{noted("sockets", &stopped), noted("table", &stopped), noted("store", &stopped)}
		time.AfterFunc(time.Minute, cancel)
		if err := runStages(ctx, slog.New(slog.DiscardHandler), stages); err != nil {
			t.Error(err)
		}
		if want := []string{"sockets", "table", "store"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped in order %v, want %v", stopped, want)
		}
	})
}

func TestFailingStageStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		broken := errors.New("socket closed")
		stages := []stage{
			noted("sockets", &stopped),
			{"push", func(context.Context) error { return broken }},
			noted("store", &stopped),
		}
		err := runStages(context.Background(), slog.New(slog.DiscardHandler), stages)
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
		if want := []string{"sockets", "store"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped %v, want %v", stopped, want)
		}
	})
}

func TestFaultOfALateStageIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := runStages(ctx, slog.New(slog.DiscardHandler), []stage{
			{"store", func(ctx context.Context) error { <-ctx.Done(); return full }},
		})
		if !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	})
}
