package twin

import "remit/proof/form"

// rsGrammar is how literals are written in Rust.
var rsGrammar = &grammar{yes: "true", no: "false", errors: rsVariants, text: rsLiteral, pattern: rsPattern, typed: true}

var (
	rsLiteral = form.Lazy(`^(b?["']|b?r#*")(?:[^\\\n\r]|\\[ntr\\'"0])*$`)
	rsPattern = form.Lazy(`^(?:b?"((?:[^"\\]|\\.)*)"|b?r#*"([^"]*)"#*)$`)
)

// rsVariants are variants of enumerations of the standard library, with others.
var rsVariants = map[string][]string{
	"Less": {"Equal", "Greater"}, "Equal": {"Less", "Greater"}, "Greater": {"Less", "Equal"},
	"NotFound": {"PermissionDenied", "AlreadyExists", "InvalidInput"}, "PermissionDenied": {"NotFound", "InvalidData"},
	"InvalidInput": {"InvalidData", "NotFound", "Other"}, "InvalidData": {"InvalidInput", "UnexpectedEof"},
	"UnexpectedEof": {"InvalidData", "WriteZero"}, "AlreadyExists": {"NotFound", "PermissionDenied"},
}
