package ledger

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/metric"
)

// Account counts the samples of one goroutine of one receiver. The owner writes, the Ledger reads.
// The padding keeps two owners off one cache line.
//
// Whenever the owner is between two samples: Received = Applied + Σ Rejected + Pending. The unit is
// the sample: a line of three packed values counts as three, a malformed line as one.
//
// Another goroutine settles pending samples, in counters of its own. So Received, which the owner
// counts, never falls for any reader.
type Account struct {
	_           [64]byte
	applied     atomic.Uint64
	rejected    [metric.NumReasons]atomic.Uint64
	bytes       atomic.Uint64
	packets     atomic.Uint64
	kernelDrops atomic.Uint64
	held        atomic.Uint64 // ever
	settled     settled
	datagrams   bool // it has a socket at which the kernel drops; immutable once open
	_           [64]byte
}

// settled counts the pending samples that were applied or rejected since.
type settled struct {
	applied  atomic.Uint64
	rejected [metric.NumReasons]atomic.Uint64
}

// Count counts one sample as applied, or as rejected for the reason.
func (a *Account) Count(r metric.Reason) { a.CountN(r, 1) }

// CountN is Count for n samples.
func (a *Account) CountN(r metric.Reason, n uint64) {
	if r == metric.Applied {
		a.applied.Add(n)
		return
	}
	a.rejected[r].Add(n)
}

// CountApplied counts n applied samples: the hot path counts in a register and calls this once per
// batch.
func (a *Account) CountApplied(n uint64) { a.applied.Add(n) }

// Hold counts a sample that becomes pending.
func (a *Account) Hold() { a.held.Add(1) }

// HoldN is Hold for n samples.
func (a *Account) HoldN(n uint64) { a.held.Add(n) }

// Settle counts n pending samples as applied, or as rejected for the reason.
func (a *Account) Settle(r metric.Reason, n uint64) {
	if r == metric.Applied {
		a.settled.applied.Add(n)
		return
	}
	a.settled.rejected[r].Add(n)
}

// AddPackets counts datagrams (or stream reads, or request bodies) and their bytes.
func (a *Account) AddPackets(n, bytes uint64) {
	a.packets.Add(n)
	a.bytes.Add(bytes)
}

// SetKernelDrops sets the number of datagrams that the kernel has dropped at the socket of an
// account of OpenDatagrams.
func (a *Account) SetKernelDrops(total uint64) { a.kernelDrops.Store(total) }

func (a *Account) Applied() uint64 { return a.applied.Load() + a.settled.applied.Load() }

func (a *Account) Rejected(r metric.Reason) uint64 {
	return a.rejected[r].Load() + a.settled.rejected[r].Load()
}

// Pending is the number of samples that are neither applied nor rejected yet.
func (a *Account) Pending() uint64 {
	n := a.settled.applied.Load()
	for i := range a.settled.rejected {
		n += a.settled.rejected[i].Load()
	}
	return a.held.Load() - n // read last: a sample is held before it is settled
}

// Received is the number of samples received: applied, rejected and pending.
func (a *Account) Received() uint64 {
	n := a.applied.Load() + a.held.Load()
	for i := range a.rejected {
		n += a.rejected[i].Load()
	}
	return n
}

// Packets is the number of datagrams, stream reads or request bodies.
func (a *Account) Packets() uint64 { return a.packets.Load() }

// KernelDrops is the number of datagrams that the kernel dropped at the socket.
func (a *Account) KernelDrops() uint64 { return a.kernelDrops.Load() }

// Ledger holds the accounts of all receivers, and exports them as metrics, summed by receiver.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string][]*Account
}

func New() *Ledger { return &Ledger{accounts: map[string][]*Account{}} }

// Open makes an account for one goroutine of the receiver. Accounts are never closed, because their
// counts must stay: short-lived goroutines share one account or reuse each other's.
func (l *Ledger) Open(receiver string) *Account { return l.open(receiver, new(Account)) }

// OpenDatagrams is Open for a goroutine that reads a datagram socket, at which the kernel may drop.
func (l *Ledger) OpenDatagrams(receiver string) *Account {
	return l.open(receiver, &Account{datagrams: true})
}

func (l *Ledger) open(receiver string, a *Account) *Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[receiver] = append(l.accounts[receiver], a)
	return a
}

// Sum adds up a figure of all accounts.
func (l *Ledger) Sum(figure func(*Account) uint64) (sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, accounts := range l.accounts {
		for _, a := range accounts {
			sum += figure(a)
		}
	}
	return sum
}

var (
	receivedDesc = prometheus.NewDesc("sluice_samples_received_total",
		"Samples received: applied, rejected and pending.", []string{"receiver"}, nil)
	appliedDesc = prometheus.NewDesc("sluice_samples_applied_total",
		"Samples applied to a series.", []string{"receiver"}, nil)
	rejectedDesc = prometheus.NewDesc("sluice_samples_rejected_total",
		"Samples rejected, by reason.", []string{"receiver", "reason"}, nil)
	pendingDesc = prometheus.NewDesc("sluice_samples_pending",
		"Samples held until their sender is known.", []string{"receiver"}, nil)
	packetsDesc = prometheus.NewDesc("sluice_packets_received_total",
		"Datagrams, stream reads or request bodies received.", []string{"receiver"}, nil)
	bytesDesc = prometheus.NewDesc("sluice_received_bytes_total",
		"Bytes received.", []string{"receiver"}, nil)
	dropsDesc = prometheus.NewDesc("sluice_kernel_drops_total",
		"Datagrams dropped by the kernel because the socket's buffer was full.", []string{"receiver"}, nil)
)

// Describe implements prometheus.Collector.
func (l *Ledger) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, receivedDesc, appliedDesc, rejectedDesc, pendingDesc, packetsDesc,
		bytesDesc, dropsDesc)
}

// Figures are the sums of a receiver's accounts.
type Figures struct {
	Receiver                   string
	Received, Applied, Pending uint64
	Rejected                   [metric.NumReasons]uint64
	Packets, Bytes             uint64
	// Datagrams is set if the kernel may drop datagrams at its sockets.
	Datagrams   bool
	KernelDrops uint64
}

// Figures returns the sums of each receiver, sorted by name.
func (l *Ledger) Figures() []Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Figures
	for _, name := range slices.Sorted(maps.Keys(l.accounts)) {
		f := Figures{Receiver: name}
		for _, a := range l.accounts[name] {
			f.add(a)
		}
		all = append(all, f)
	}
	return all
}

func (f *Figures) add(a *Account) {
	f.Received += a.Received()
	f.Applied += a.Applied()
	f.Pending += a.Pending()
	f.Packets += a.packets.Load()
	f.Bytes += a.bytes.Load()
	f.KernelDrops += a.kernelDrops.Load()
	f.Datagrams = f.Datagrams || a.datagrams
	for i := range f.Rejected {
		f.Rejected[i] += a.Rejected(metric.Reason(i))
	}
}

// Collect implements prometheus.Collector.
func (l *Ledger) Collect(ch chan<- prometheus.Metric) {
	for _, f := range l.Figures() {
		for _, r := range metric.Reasons() {
			collect.Counter(ch, rejectedDesc, f.Rejected[r], f.Receiver, r.String())
		}
		collect.Counter(ch, receivedDesc, f.Received, f.Receiver)
		collect.Counter(ch, appliedDesc, f.Applied, f.Receiver)
		collect.Gauge(ch, pendingDesc, f.Pending, f.Receiver)
		collect.Counter(ch, packetsDesc, f.Packets, f.Receiver)
		collect.Counter(ch, bytesDesc, f.Bytes, f.Receiver)
		if f.Datagrams {
			collect.Counter(ch, dropsDesc, f.KernelDrops, f.Receiver)
		}
	}
}
