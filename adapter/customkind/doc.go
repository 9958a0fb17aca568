// Package customkind keeps Sluice's rules and policies equal to the objects of its custom kinds in the cluster
// (rules also to rules-file), and reports in their statuses and in Events what became of each.
//
// Its neighbours: package cluster watches the objects, packages rule and policy say what they mean. It answers no
// query; Policies deny every external metric while the policies of the cluster are not known.
package customkind
