package metric

// Kind says how the samples of a series combine.
type Kind uint8

// The kinds. The zero Kind is none of them, so that a forgotten one is noticed.
const (
	NoKind  Kind = iota
	Counter      // increments add up
	Gauge        // the newest value stands
	Timer        // observations form a distribution (also "histogram" and "distribution")
	Set          // distinct members are counted
)

var kindNames = [...]string{"none", "counter", "gauge", "timer", "set"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// ParseKind reads what Kind.String prints. "histogram" and "distribution" are timers.
func ParseKind(s string) (Kind, bool) {
	switch s {
	case "counter":
		return Counter, true
	case "gauge":
		return Gauge, true
	case "timer", "histogram", "distribution":
		return Timer, true
	case "set":
		return Set, true
	}
	return NoKind, false
}
