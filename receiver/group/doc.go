// Package group holds what was pushed in groups, as a Pushgateway keeps it: by job and further grouping labels, until the
// group is deleted or its time to live is over.
//
// Before it stands receiver/push, which reads requests and knows who may make them; after it, behind the interfaces that it
// declares, the table (Applier, Table), which serves the values, and the store, which keeps each group as a document.
//
// A push is applied whole, or refused whole with what was in the group as it was. Nothing that it costs depends on
// other groups, and no other group can make it fail: a series that the table does not take is kept for exposition and
// not served, and the push is taken all the same.
//
// It never opens a socket, parses a body or decides who may push.
package group
