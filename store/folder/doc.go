// Package folder owns the data folder: its names, its marker file, its lock file, the renaming of a
// database that can't be trusted, the count of restores that killed the process, and the name of the
// replica that counted the data. It comes
// before package database, which opens what lies in the folder. It never opens the database, and
// never touches a folder that isn't ours.
package folder
