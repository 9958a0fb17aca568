package loadtest

import (
	"context"
	"errors"
	"time"
)

// idleScenario measures a server without load.
var idleScenario = Scenario{
	Name: "idle", About: "server without load: memory and CPU of its processes at rest",
	measure: measureIdle,
}

// idleRest is the time between the start and the measurement: a server at rest returns memory after
// some seconds.
const idleRest = 25 * time.Second

func measureIdle(ctx context.Context, m *measurement) (figures []Figure, err error) {
	during := 10 * time.Second
	if m.Short {
		during = time.Second
	}
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	m.step("resting")
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return nil, err
	}
	before, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := rest(ctx, during); err != nil {
		return nil, err
	}
	after, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	memory, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "resident", Unit: "MiB", Value: mebibytes(memory.ResidentBytes()), Aim: Aim{Most: 60}},
		{Name: "anon", Unit: "MiB", Value: mebibytes(memory.AnonBytes)},
		{Name: "server_cpu", Unit: "cores", Value: (after.total - before.total).Seconds() / took.Seconds()},
	}, nil
}
