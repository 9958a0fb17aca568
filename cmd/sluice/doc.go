// Command sluice is the whole product in one binary: serve runs the server, and the subcommands of package
// client ask it, for people and scripts.
//
// This package has serve, and joins the stages. settings.go lists every setting, config.go composes the stages'
// configurations, wire.go draws the data path and makes it, and stages.go runs and stops it. It
// decides nothing about a sample.
package main
