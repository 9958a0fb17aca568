package receiver

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/metric"
)

// Account counts what one goroutine of one receiver got. Its owner writes, the ledger reads; the padding
// keeps two owners off one cache line.
//
// The law, exact whenever the owner is between two samples: Received = Applied + Σ Rejected + Pending. The unit is
// the sample: a line that packs three values is three, a line that cannot be read is one.
//
// What was held is settled by another goroutine, in counts of its own: so Received, which is what the owner counted,
// never falls, whoever reads it when.
type Account struct {
	_           [64]byte
	applied     atomic.Uint64
	rejected    [metric.NumReasons]atomic.Uint64
	bytes       atomic.Uint64
	packets     atomic.Uint64
	kernelDrops atomic.Uint64
	held        atomic.Uint64 // ever
	settled     settled
	datagrams   bool // it has a socket that the kernel drops at; never changed once it is open
	_           [64]byte
}

// settled is what became of the samples that were held, entered by Pending.
type settled struct {
	applied  atomic.Uint64
	rejected [metric.NumReasons]atomic.Uint64
}

// Count enters one sample with what became of it.
func (a *Account) Count(r metric.Reason) {
	if r == metric.Applied {
		a.applied.Add(1)
		return
	}
	a.rejected[r].Add(1)
}

// CountBatch enters n applied samples at once: the hot path counts in a register and calls this once a batch.
func (a *Account) CountApplied(n uint64) { a.applied.Add(n) }

// hold enters a sample that is pending; settle what became of n such.
func (a *Account) hold() { a.held.Add(1) }

func (a *Account) settle(r metric.Reason, n uint64) {
	if r == metric.Applied {
		a.settled.applied.Add(n)
		return
	}
	a.settled.rejected[r].Add(n)
}

// Packets enters datagrams (or stream reads, or request bodies) and their bytes.
func (a *Account) AddPackets(n, bytes uint64) {
	a.packets.Add(n)
	a.bytes.Add(bytes)
}

// KernelDrops, of an account that OpenDatagrams opened, sets how many datagrams the kernel says it dropped at this socket so far.
func (a *Account) SetKernelDrops(total uint64) { a.kernelDrops.Store(total) }

// Applied is how many samples were applied.
func (a *Account) Applied() uint64 { return a.applied.Load() + a.settled.applied.Load() }

// Rejected is how many samples were refused for a reason.
func (a *Account) Rejected(r metric.Reason) uint64 {
	return a.rejected[r].Load() + a.settled.rejected[r].Load()
}

// Pending is how many samples are held: neither applied nor refused yet.
func (a *Account) Pending() uint64 {
	n := a.settled.applied.Load()
	for i := range a.settled.rejected {
		n += a.settled.rejected[i].Load()
	}
	return a.held.Load() - n // read last: what is settled was held before
}

// Received is how many samples came in: applied, refused and pending.
func (a *Account) Received() uint64 {
	n := a.applied.Load() + a.held.Load()
	for i := range a.rejected {
		n += a.rejected[i].Load()
	}
	return n
}

// Ledger holds the accounts of all receivers and shows them as metrics, summed by receiver.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string][]*Account
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger { return &Ledger{accounts: map[string][]*Account{}} }

// Open makes an account for one goroutine of the receiver. Short-lived goroutines share one account or
// hand theirs on: accounts are never closed, for their counts must stay.
func (l *Ledger) Open(receiver string) *Account { return l.open(receiver, new(Account)) }

// OpenDatagrams is Open for a goroutine that reads a datagram socket, where the kernel drops what finds no room.
func (l *Ledger) OpenDatagrams(receiver string) *Account {
	return l.open(receiver, &Account{datagrams: true})
}

func (l *Ledger) open(receiver string, a *Account) *Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[receiver] = append(l.accounts[receiver], a)
	return a
}

var (
	receivedDesc = prometheus.NewDesc("sluice_samples_received_total",
		"Samples received: applied, rejected and pending.", []string{"receiver"}, nil)
	appliedDesc = prometheus.NewDesc("sluice_samples_applied_total",
		"Samples applied to a series.", []string{"receiver"}, nil)
	rejectedDesc = prometheus.NewDesc("sluice_samples_rejected_total",
		"Samples refused, by reason.", []string{"receiver", "reason"}, nil)
	pendingDesc = prometheus.NewDesc("sluice_samples_pending",
		"Samples held until it is known whose they are.", []string{"receiver"}, nil)
	packetsDesc = prometheus.NewDesc("sluice_packets_received_total",
		"Datagrams, stream reads or request bodies received.", []string{"receiver"}, nil)
	bytesDesc = prometheus.NewDesc("sluice_received_bytes_total",
		"Bytes received.", []string{"receiver"}, nil)
	dropsDesc = prometheus.NewDesc("sluice_kernel_drops_total",
		"Datagrams that the kernel dropped because the socket's buffer was full.", []string{"receiver"}, nil)
)

// Describe implements prometheus.Collector.
func (l *Ledger) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{receivedDesc, appliedDesc, rejectedDesc, pendingDesc, packetsDesc, bytesDesc, dropsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Ledger) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, accounts := range l.accounts {
		var received, applied, pending, packets, bytes, drops uint64
		var rejected [metric.NumReasons]uint64
		var datagrams bool
		for _, a := range accounts {
			received += a.Received()
			applied += a.Applied()
			pending += a.Pending()
			packets += a.packets.Load()
			bytes += a.bytes.Load()
			drops += a.kernelDrops.Load()
			datagrams = datagrams || a.datagrams
			for i := range rejected {
				rejected[i] += a.Rejected(metric.Reason(i))
			}
		}
		for _, r := range metric.Reasons() {
			ch <- counter(rejectedDesc, rejected[r], name, r.String())
		}
		ch <- counter(receivedDesc, received, name)
		ch <- counter(appliedDesc, applied, name)
		ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(pending), name)
		ch <- counter(packetsDesc, packets, name)
		ch <- counter(bytesDesc, bytes, name)
		if datagrams {
			ch <- counter(dropsDesc, drops, name)
		}
	}
}

func counter(d *prometheus.Desc, v uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}
