package explain

import (
	"math"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// Standing is the state of an autoscaler at a glance, for overviews.
type Standing struct {
	Rank Rank
	// Hold says in three words what is wrong, or what keeps the autoscaler from following its metrics; empty:
	// nothing does. Why says it in full.
	Hold, Why string
}

// Rank is the place in an overview: the worst is first.
type Rank int

// The ranks.
const (
	RankBroken Rank = iota // it doesn't work
	RankHeld               // it doesn't reach what its metrics ask for
	RankMoving             // its replicas are on the way
	RankCalm
)

// StandingOf judges an autoscaler by Sluice's answers and the controller's conditions.
func StandingOf(a *inspect.Autoscaler) Standing {
	if fault := faultOf(a); fault != "" {
		return Standing{RankBroken, shortFault(a), fault}
	}
	s := Standing{Rank: RankCalm, Why: remark(a)}
	if a.Wants() && a.CurrentReplicas != a.DesiredReplicas {
		s.Rank = RankMoving
	}
	for _, c := range a.Conditions {
		hold, held := holds[c.Reason]
		if !held {
			continue
		}
		s.Hold = hold.text
		s.Rank = min(s.Rank, hold.rank)
		break
	}
	return s
}

// holds are the controller's reasons that keep an autoscaler from following its metrics. At the lowest number of
// replicas nothing is wrong.
var holds = map[string]struct {
	text string
	rank Rank
}{
	"ScalingDisabled":     {"switched off", RankCalm},
	"TooManyReplicas":     {"limit maxReplicas", RankHeld},
	"TooFewReplicas":      {"limit minReplicas", RankCalm},
	"ScaleUpLimit":        {"policy scaleUp", RankHeld},
	"ScaleDownLimit":      {"policy scaleDown", RankCalm},
	"ScaleDownStabilized": {"stabilization window", RankCalm},
	"ScaleUpStabilized":   {"stabilization window", RankCalm},
}

// faultOf says what keeps an autoscaler from working; empty: nothing.
func faultOf(a *inspect.Autoscaler) string {
	fault := a.Fault()
	for _, c := range a.Conditions {
		if fault == "" && c.Status == "False" && c.Type == "ScalingActive" && c.Reason != "ScalingDisabled" {
			return c.Message
		}
	}
	return fault
}

// shortFault says in three words why an autoscaler is broken.
func shortFault(a *inspect.Autoscaler) string {
	for i := range a.Metrics {
		if a.Metrics[i].Missing {
			return "metric missing"
		}
	}
	for i := range a.Metrics {
		if a.Metrics[i].HeldBack != "" {
			return "pods lack values"
		}
	}
	for _, c := range a.Conditions {
		if c.Type == "AbleToScale" && c.Status == "False" {
			return "target can't scale"
		}
	}
	return "no value arrives"
}

// remark is what is worth saying of an autoscaler that works; empty: nothing.
func remark(a *inspect.Autoscaler) (text string) {
	for _, c := range a.Conditions {
		switch {
		case c.Reason == "ScalingDisabled":
			return "is switched off: " + c.Message
		case c.Type == "ScalingLimited" && c.Status == "True":
			text = c.Message
		}
	}
	for i := range a.Metrics {
		if m := &a.Metrics[i]; m.Why != "" && m.Asked {
			return m.Name + ": " + m.Why
		}
	}
	return text
}

// Compared is the value that is compared with a metric's target: of type AverageValue, the share of one replica.
func Compared(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, value float64) float64 {
	if m.TargetType == "AverageValue" && m.Source != sourcePods {
		return value / float64(max(a.CurrentReplicas, 1))
	}
	return value
}

// ShareOfTarget is a metric's value as a share of its target: Sluice's answer, or else what the controller has read.
// NaN: there is none.
func ShareOfTarget(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) float64 {
	target := Number(strings.TrimSuffix(m.Target, "%"))
	if target <= 0 || m.Missing {
		return math.NaN()
	}
	if m.Asked {
		return Compared(a, m, Number(m.Value)) / target
	}
	return Number(strings.TrimSuffix(m.Current, "%")) / target
}
