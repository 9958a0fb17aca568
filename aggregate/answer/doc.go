// Package answer answers all readers: the metrics APIs, HTTP, KEDA, the console and Sluice's own watchers of
// autoscalers. A question goes through the rules to the roll-ups of pods, and from there to the tables of all
// replicas. Watches notice that an answer may have changed, without reading it.
//
// It knows no protocol and no policy: who may ask is decided before.
package answer
