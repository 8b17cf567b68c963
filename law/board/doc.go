// Package board checks a folder of governance records: Markdown files with front
// matter, and a WORKBOARD.yaml that says which work is done and what shows it.
// The check reads the folder and nothing else, and lists every finding.
//
// # Records
//
// Every file whose name ends in .md is a record. It begins with front matter, a
// YAML document between two lines "---", with all the fields of [Record]. Its
// body has every statement that the workboard requires.
//
// # The workboard
//
// WORKBOARD.yaml has required_statements and items. An [Item] is candidate,
// blocked or validated. It may name the items that block it, and evidence by
// path and digest. A path is relative to the folder and stays in it; no link is
// followed.
//
// # What is never believed
//
// A status is a claim. An item counts as validated only if every item that blocks
// it is, and if one of its evidence files is a report of Remit that says pass; a
// record counts as validated only as evidence of such an item. Text that looks
// like a credential is a finding wherever it stands in the folder, and the
// finding does not repeat it.
//
// # Bounds
//
// Files are counted and measured before they are read ([MaxFiles],
// [MaxRecordBytes], [MaxFileBytes], [MaxFolderBytes], [MaxDepth]). What is above a
// bound is a finding, never a silence.
package board
