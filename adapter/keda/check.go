package keda

import "strings"

// Asks is what the metadata of a trigger asks for.
type Asks struct {
	Question
	Target, Activation float64
	// AbsentIsZero is set if a metric without series reads 0.
	AbsentIsZero bool
}

// Check reads the metadata of a trigger as a request of KEDA is read, and returns all its faults.
func Check(namespace string, metadata map[string]string) (asks Asks, faults []string) {
	t, err := parseTrigger(namespace, metadata)
	if err != nil {
		faults = strings.Split(err.Error(), "\n")
	}
	return Asks{Question: t.question, Target: t.target, Activation: t.activation, AbsentIsZero: t.absentIsZero}, faults
}
