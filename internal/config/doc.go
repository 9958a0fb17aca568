// Package config is the vocabulary of configuration faults: which setting is invalid, and why.
// Every package that has a Config reports its faults with it; cmd/sluice renders them with the name
// by which the user knows the setting. The package reads no flags and no files, and knows no
// setting.
package config
