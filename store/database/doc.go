// Package database is the fence around Badger, and its only importer. It comes after package
// folder, which locks the data folder, and before package store, which writes blocks of series
// through it. It knows nothing of series.
//
// Badger maps its files into memory. It ends the process where a file isn't what it expected or the
// disk is full, and stops it while the disk is stalled. So Opener does the following, in this
// order:
//
//	manifest.go    compares the manifest with a copy: Badger deletes every table that isn't listed
//	../wal         scans the logs, because Badger cuts a damaged log and reports nothing
//	probe.go       opens a scratch copy in a throw-away process and reads all of it
//	open.go        opens the database, or sets a damaged one aside and creates a new one
//
// While the database is restored from, it is in this process (Local, database.go). Afterwards it is
// in the storage process (Process, process.go), which may wait for the disk or die alone;
// protocol.go is what the two processes exchange. Whichever process has the database open also
// preallocates its logs (freespace.go, which also measures the disk), fsyncs them, copies the
// manifest and compacts (maintenance.go).
package database
