// Package usage keeps what a container or a node used of a resource over the last day, and computes mean, maximum and
// 95th percentile of four windows.
//
// A History gets points: what was used between two moments, or held at the second of them. It keeps the points of the
// last hour, and of the day before parts of five minutes: duration, mean, maximum, and a sketch of the values with a
// relative error of one percent (a DDSketch, https://www.vldb.org/pvldb/vol12/p2195-masson.pdf).
//
// A Tracker follows the containers of a node, and makes points of a kubelet's measurements: a point is a new moment of
// measuring, not a new question. Latest keeps the records of all nodes.
package usage
