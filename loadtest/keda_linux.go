package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// kedaScenario measures push triggers of KEDA: the cost of those that are idle, and the time from a
// sample until the stream of a trigger says that it is active.
var kedaScenario = Scenario{
	Name: "keda", About: "2,000 idle push triggers of KEDA: CPU; time from a datagram to the stream's message",
	measure: measureKEDA,
}

// kedaTimeout bounds a run: a message that never comes would end none.
const kedaTimeout = 5 * time.Minute

func measureKEDA(ctx context.Context, m *measurement) (figures []Figure, err error) {
	triggers, wakes, during := 2000, 200, 10*time.Second
	if m.Short {
		triggers, wakes, during = 50, 10, time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, kedaTimeout)
	defer cancel()
	m.note("Half of the %d idle triggers are of metrics that nobody pushes, half of gauges of 0. Then gauges get a 1 in turn.", triggers)
	addresses, err := freeTCP(1)
	if err != nil {
		return nil, err
	}
	s, err := m.startServer(ctx, "--keda-address", addresses[0], "--keda-insecure=true")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	k, err := openScaler(addresses[0], s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	m.step("resting")
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return nil, err
	}
	alone, err := coresDuring(ctx, s.pid(), during)
	if err != nil {
		return nil, err
	}
	m.step("opening streams")
	zeros, err := k.openTriggers(ctx, triggers)
	if err != nil {
		return nil, err
	}
	m.step("resting")
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return nil, err
	}
	watching, err := coresDuring(ctx, s.pid(), during)
	if err != nil {
		return nil, err
	}
	m.step("pushes")
	woken, err := k.wakeAll(ctx, zeros[:wakes])
	if err != nil {
		return nil, err
	}
	return append(woken.figures("datagram_to_message", Aim{Most: 50}),
		Figure{Name: "cpu_alone", Unit: "cores", Value: alone},
		Figure{Name: "cpu_idle_triggers", Unit: "cores", Value: watching - alone, Aim: Aim{Most: 0.02}}), nil
}

// coresDuring is the CPU time of a process and its children per second.
func coresDuring(ctx context.Context, pid int, during time.Duration) (float64, error) {
	before, err := readCPU(pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := rest(ctx, during); err != nil {
		return 0, err
	}
	took := time.Since(began)
	after, err := readCPU(pid)
	return (after.total - before.total).Seconds() / took.Seconds(), err
}

// scalerClient is KEDA's operator and a pod that pushes.
type scalerClient struct {
	conn      *grpc.ClientConn
	datagrams *net.UDPConn
}

func openScaler(address string, s *server) (*scalerClient, error) {
	datagrams, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.udp))
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return &scalerClient{conn, datagrams}, err
}

func (k *scalerClient) close() error { return errors.Join(k.conn.Close(), k.datagrams.Close()) }

// activations is the stream of a push trigger.
type activations = grpc.ServerStreamingClient[externalscaler.IsActiveResponse]

// zeroTrigger is the trigger of a gauge of 0.
type zeroTrigger struct {
	metric string
	activations
}

// openTriggers opens streams that say false: half of gauges of 0, which are returned, half of
// metrics that are absent.
func (k *scalerClient) openTriggers(ctx context.Context, count int) (zeros []zeroTrigger, err error) {
	client := externalscaler.NewExternalScalerClient(k.conn)
	for i := range count {
		z := zeroTrigger{metric: fmt.Sprintf("keda.jobs%d", i)}
		if i%2 == 0 {
			if err := k.push(z.metric, 0); err != nil {
				return nil, err
			}
		}
		z.activations, err = client.StreamIsActive(ctx, &externalscaler.ScaledObjectRef{
			Name: z.metric, Namespace: "default", ScalerMetadata: map[string]string{"metric": z.metric + ":last",
				"target": "10", "absent": "0"},
		})
		if err != nil {
			return nil, err
		}
		if err := z.expect(false); err != nil {
			return nil, err
		}
		if i%2 == 0 {
			zeros = append(zeros, z)
		}
	}
	return zeros, nil
}

func (k *scalerClient) push(metric string, value int) error {
	_, err := fmt.Fprintf(k.datagrams, "%s:%d|g", metric, value)
	return err
}

func (z *zeroTrigger) expect(active bool) error {
	answer, err := z.Recv()
	if err == nil && answer.GetResult() != active {
		err = fmt.Errorf("active is %t, want %t", answer.GetResult(), active)
	}
	if err != nil {
		return fmt.Errorf("stream of %s: %w", z.metric, err)
	}
	return nil
}

// betweenWakes is the shortest time between two pushes. A message comes with a look of the server,
// so the next push comes after a time of chance: it would otherwise always meet one phase between
// two looks.
const betweenWakes = 20 * time.Millisecond

// wakeAll pushes a 1 to one gauge after the other.
func (k *scalerClient) wakeAll(ctx context.Context, zeros []zeroTrigger) (woken durations, err error) {
	for _, zero := range zeros {
		begun := time.Now()
		if err := k.push(zero.metric, 1); err != nil {
			return nil, err
		}
		if err := zero.expect(true); err != nil {
			return nil, err
		}
		woken = append(woken, time.Since(begun))
		if err := rest(ctx, betweenWakes+rand.N(5*betweenWakes)); err != nil {
			return nil, err
		}
	}
	return woken, nil
}
