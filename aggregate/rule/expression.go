package rule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"github.com/sluice-metrics/sluice/internal/suggest"
)

// Bounds of an expression's evaluation. There are no loops and no text, so an expression costs what
// its length allows, and the bound is checked once, before it is ever evaluated.
const (
	maxCost    = 1000 // in CEL's units
	maxNesting = 32
)

// language is CEL with numbers alone: arithmetic, comparisons, conditions and CEL's library "math".
var language = sync.OnceValues(func() (*cel.Env, error) {
	allowed := []string{
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Equals, operators.NotEquals, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot,
		operators.Conditional,
	}
	subset := &env.LibrarySubset{DisableMacros: true, IncludeFunctions: []*env.Function{
		{Name: "double", Overloads: []*env.Overload{{ID: overloads.IntToDouble}, {ID: overloads.DoubleToDouble}}},
		{Name: "int", Overloads: []*env.Overload{{ID: overloads.DoubleToInt}, {ID: overloads.IntToInt}}},
	}}
	for _, name := range allowed {
		subset.IncludeFunctions = append(subset.IncludeFunctions, &env.Function{Name: name})
	}
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(subset)), ext.Math(), cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxExpression),
	)
})

// expression is a compiled expression over operands.
type expression struct {
	program  cel.Program
	operands []string // their names
	values   sync.Pool
}

// identifier is the form of an operand's name.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are names that CEL reserves, or that are functions here.
var reserved = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "dyn", "int", "list", "map", "math", "null_type", "string", "type", "uint",
}

// compileExpression compiles an expression and returns all its faults.
func compileExpression(text string, operands []string) (*expression, []error) {
	base, err := language()
	if err != nil {
		return nil, []error{err}
	}
	options := make([]cel.EnvOption, len(operands))
	for i, name := range operands {
		options[i] = cel.Variable(name, cel.DoubleType)
	}
	with, err := base.Extend(options...)
	if err != nil {
		return nil, []error{fmt.Errorf("value: %w", err)}
	}
	checked, issues := with.Compile(text)
	if issues.Err() != nil {
		return nil, issueFaults(text, issues, operands)
	}
	if faults := checkExpression(with, checked, operands); len(faults) > 0 {
		return nil, faults
	}
	program, err := with.Program(checked, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, []error{fmt.Errorf("value: %w", err)}
	}
	e := &expression{program: program, operands: operands}
	e.values.New = func() any { return &values{names: operands, numbers: make([]float64, len(operands))} }
	return e, nil
}

// asWritten replaces CEL's inner names of functions by those that people write.
var asWritten = strings.NewReplacer("math.@max", "math.greatest", "math.@min", "math.least")

// issueFaults words CEL's errors. The commonest one is a whole number beside a double.
func issueFaults(text string, issues *cel.Issues, operands []string) (faults []error) {
	errs := issues.Errors()
	for _, issue := range errs {
		message := asWritten.Replace(strings.TrimSuffix(issue.Message, " (in container '')"))
		if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
			name, _, _ = strings.Cut(name, "'")
			switch {
			case isCall(text, issue.Location.Line(), issue.Location.Column()):
				message = unknownFunction(name)
			case name == "math" && len(errs) > 1:
				continue // the fault of its function says it
			case name == "math":
				message += "; the functions are " + strings.Join(functions, ", ")
			default:
				message += "; must be one of let: " + strings.Join(operands, ", ") + suggest.DidYouMean(name, operands)
			}
		}
		if limit, ok := strings.CutPrefix(message, "expression recursion limit exceeded: "); ok { // has no place
			faults = append(faults, fmt.Errorf("value nests parentheses or conditions more than %s deep; must be at most %s: shorten it", limit, limit))
			continue
		}
		if strings.Contains(message, "found no matching overload") && strings.Contains(message, "int") {
			message += "; operands are doubles, and so must be the numbers beside them: 2.0, not 2"
		}
		faults = append(faults, fmt.Errorf("value, line %d, column %d: %s", issue.Location.Line(),
			issue.Location.Column()+1, message))
	}
	return faults
}

// functions are those of CEL's library "math" that docs/rules.md names.
var functions = []string{"math.greatest", "math.least", "math.abs", "math.ceil", "math.floor",
	"math.round", "math.sqrt"}

// otherNames are functions' names in other languages.
var otherNames = map[string]string{"max": "math.greatest", "min": "math.least"}

// unknownFunction is the fault of a call of a function that there isn't.
func unknownFunction(name string) string {
	message := fmt.Sprintf("there is no function '%s'; must be one of %s", name, strings.Join(functions, ", "))
	meant := otherNames[name]
	if meant == "" {
		var short []string
		for _, function := range functions {
			short = append(short, strings.TrimPrefix(function, "math."))
		}
		if meant = suggest.Nearest(name, short); meant != "" {
			meant = "math." + meant
		}
	}
	if meant != "" {
		message += fmt.Sprintf("; did you mean %q?", meant)
	}
	return message
}

// isCall reports whether the place of an error is the parenthesis of a call. Lines count from 1, columns
// from 0, in characters.
func isCall(text string, line, column int) bool {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return false
	}
	characters := []rune(lines[line-1])
	return column >= 0 && column < len(characters) && characters[column] == '('
}

// checkExpression checks the type and the cost of an expression, and that it uses each operand.
func checkExpression(with *cel.Env, checked *cel.Ast, operands []string) (faults []error) {
	if result := checked.OutputType(); !result.IsExactType(cel.DoubleType) {
		remedy := "compare with a condition, as in: a > b ? 1.0 : 0.0"
		if result.IsExactType(cel.IntType) || result.IsExactType(cel.DynType) { // dyn: whole numbers beside doubles in a function
			remedy = "write numbers with a point, as in 2.0, or convert with double()"
		}
		faults = append(faults, fmt.Errorf("value has the type %s; must be double: %s", cel.FormatCELType(result), remedy))
	}
	cost, err := with.EstimateCost(checked, noSizes{})
	if err != nil {
		faults = append(faults, fmt.Errorf("value: %w", err))
	} else if cost.Max > maxCost {
		faults = append(faults, fmt.Errorf("value costs up to %d units; must be at most %d: shorten it", cost.Max, maxCost))
	}
	used := map[string]bool{}
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			used[e.AsIdent()] = true
		}
	}))
	for _, name := range operands {
		if !used[name] {
			faults = append(faults, fmt.Errorf("let.%s is not used in value; must be used or removed: an operand without a value leaves the rule without one", name))
		}
	}
	return faults
}

// noSizes implements checker.CostEstimator: there are no lists and no text.
type noSizes struct{}

// EstimateSize implements checker.CostEstimator.
func (noSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }

// EstimateCallCost implements checker.CostEstimator.
func (noSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// values implements cel.Activation: the operands of one evaluation.
type values struct {
	names   []string
	numbers []float64
}

// ResolveName implements cel.Activation.
func (v *values) ResolveName(name string) (any, bool) {
	i := slices.Index(v.names, name)
	if i < 0 {
		return nil, false
	}
	return types.Double(v.numbers[i]), true
}

// Parent implements cel.Activation.
func (v *values) Parent() interpreter.Activation { return nil }

// evaluate computes the value of operands in their order. The error says why there is no number.
func (e *expression) evaluate(operands []float64) (float64, error) {
	v, ok := e.values.Get().(*values)
	if !ok {
		return 0, fmt.Errorf("the pool holds another type")
	}
	defer e.values.Put(v)
	copy(v.numbers, operands)
	out, _, err := e.program.Eval(v)
	if err != nil {
		return 0, fmt.Errorf("%s with %s", asWritten.Replace(err.Error()), e.describe(operands))
	}
	result, ok := out.(types.Double)
	switch {
	case !ok:
		return 0, fmt.Errorf("the value has the type %s, not double", out.Type().TypeName())
	case math.IsNaN(float64(result)):
		return 0, fmt.Errorf("not a number with %s", e.describe(operands))
	case math.IsInf(float64(result), 0):
		return 0, fmt.Errorf("infinite with %s", e.describe(operands))
	}
	return float64(result), nil
}

// describe lists the operands with their values: busy = 3, total = 0.
func (e *expression) describe(operands []float64) string {
	list := make([]string, len(operands))
	for i, name := range e.operands {
		list[i] = fmt.Sprintf("%s = %g", name, operands[i])
	}
	return strings.Join(list, ", ")
}
