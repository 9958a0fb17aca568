package loadtest

// figureScenarios measure figures of their own. What they are about is in the file of each one's measure.
var figureScenarios = []Scenario{
	{
		Name: "churn", About: "750000 series come, go, and others come; a line of a known series waits",
		PerDatagram: 24, Seed: 9, measure: measureChurn,
	},
}
