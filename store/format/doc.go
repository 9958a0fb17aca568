// Package format is the encoding of the store's keys and values: what each entry of the database
// means. It does no I/O and doesn't know Badger. Package store writes and reads entries through it;
// packages database and wal take from it the format version, the checksum and the bound of a
// value's size.
//
//	v                             magic and format version
//	k                             clock: sequence and the table's clock, written with every transaction
//	c <block>                     checkpoint: header, then the block's state
//	n <block>                     names: header, then the identities of the block's series
//	d <block> <slot>              delta: header, then the changes since the write that the header links to
//	g <document key>              document: header, then the document
//	p <key> <generation> <part>   one part of a value that is too long for one entry
//
// Block numbers are big-endian uint32, so all deltas of a block lie together. A header is 27 bytes,
// big-endian: sequence (8), link (8), CRC-32C of the value (4), length of the value (4), number of
// parts (2), generation of the parts (1).
package format
