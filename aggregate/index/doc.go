// Package index finds series the way readers ask for them: by resource, namespace and metric name,
// then by object.
//
// Writers touch it only to create a series. Its locks are held for the work of a map or for a piece
// of a family's copy, never while a value is read.
package index
