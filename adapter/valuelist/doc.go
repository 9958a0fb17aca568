// Package valuelist builds the answers of the metrics APIs, MetricValueList and ExternalMetricValueList, and encodes
// them in JSON and protobuf.
package valuelist
