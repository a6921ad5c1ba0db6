"""The languages of fairseq's models whose files do not list them, in the order of their ids."""

_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
    "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl "
    "tn tr uk ur uz vi wo xh yi yo zh zu"
)
_WMT21 = "en ha is ja cs ru zh de"

# By `language_codes` of the tokenizer: M2M100, and the models of Facebook's entry to WMT21.
LANGUAGES = {"m2m100": _M2M100.split(), "wmt21": _WMT21.split()}
