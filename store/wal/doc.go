// Package wal reads the write-ahead logs of Badger's memtables without Badger. Badger takes the
// first entry that doesn't match its checksum for the end of a log, cuts the log there and reports
// nothing. So this package scans each log before Badger opens it, and compares it with a watermark:
// how far the log was fsynced. It never writes to a log that Badger has open.
package wal
