"""What T2T's user directories import, made of this package.

`user_imports` answers `tensor2tensor.data_generators.problem` with the module `problem` here, and
so on: see `names`. Signatures and meaning are T2T's (version 1.15). Nothing else in this package
imports these modules, except `user_imports`.
"""
