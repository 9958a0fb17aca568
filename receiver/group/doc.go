// Package group keeps metrics that are pushed in groups, as a Pushgateway does: each group has a
// job and further grouping labels, and lives until it is deleted or its TTL ends.
//
// Before it stands receiver/push, which reads requests and knows who may make them. After it,
// behind the interfaces that it declares, stand the table (Applier, Table), which serves the
// values, and the store, which keeps each group as a document.
//
// A push is applied or rejected as a whole; a rejected push leaves the group unchanged. The cost of
// a push does not depend on other groups, and no other group can make it fail. A series that the
// table rejects for its value or kind is kept for exposition and not served, and the push is
// applied all the same.
//
// The package never opens a socket, parses a body or decides who may push.
package group
