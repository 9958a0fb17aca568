// Package rule computes metrics from other metrics (docs/adr/0062): an expression in CEL over named
// operands, or another name for a pushed metric. It stands between those who read metrics (the
// metrics APIs, HTTP, KEDA, the watcher of autoscalers) and the pushed values, which it gets from
// them as a function. It knows no Kubernetes, no table and no file.
//
// # Terms
//
//   - A Document is a rule as people write it, a Rule is a compiled one, and a Set holds all rules
//     of a process, checked against each other.
//   - An operand is a name in an expression. It stands for a pushed metric, never for the metric of
//     another rule: so there are no loops.
//   - A rename maps pushed names to the names that readers ask for. The table keeps the pushed
//     names, so limits, kinds and lifetimes stay as they are.
//
// A pushed metric is never hidden: where one has the name of a rule's metric, it answers.
package rule
