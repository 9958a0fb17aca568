// Command dashboard writes charts/sluice/dashboards/sluice.json, the Grafana dashboard of the
// chart, from the rows and panels in this folder: go run ./dashboard. The JSON of a panel is 40
// lines, of which four say something; those four are here.
//
// Command dashboard never imports the product. tools/chart checks that the panels show metrics that
// exist, and all of them.
package main
