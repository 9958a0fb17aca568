// Package deletion tells replicas which series were deleted at another one. A deletion is a document:
// what it selects, when, and where. Each replica deletes the series that it selects and that were
// born before, now or when it hears of the deletion. Series that are pushed again afterwards live.
//
// Before it stand receivers that delete series at a request. After it, behind the interface Table,
// stands the table. Deletions are kept for a day, so that a replica that could not be reached
// meanwhile hears of them; the store keeps them over a restart.
//
// The package never removes a series at its own replica at the moment of a request: the receiver has
// done so.
package deletion
