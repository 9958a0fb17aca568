// Package autoscaler watches what HorizontalPodAutoscalers get from Sluice: it reads each of their
// metrics every few seconds, as the metrics APIs would answer it, and says if there is no value: as
// a metric of Sluice's own, in the log, and as an Event on the autoscaler (docs/adr/0055).
//
// The cluster view provides the autoscalers and package adapter the answers; cmd/sluice joins them.
// Lists and the console show the documents (Watcher.Autoscalers).
//
// A read answers from memory and takes the locks of any reader. The package never computes
// replicas, never changes an autoscaler, and stands on no path of a sample or of an answer.
package autoscaler
