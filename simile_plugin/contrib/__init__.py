"""The papers' other systems: code that is kept to repeat a table, not to build on.

The contract: what stands here may change or go with any version, with its flags and its formats on
disk. It is tested but not promised. Nothing outside this folder imports it but `simile contrib` and
the recipes of the papers. Each module here is a face.
"""
