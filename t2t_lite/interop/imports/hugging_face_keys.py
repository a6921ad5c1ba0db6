"""What is known of the files of Hugging Face's models, and of the keys of their settings.

Without effect is what transformers 5 does not read for MarianMT, M2M100 and NLLB-200, what only
training, other tasks or other computers use, and what a user chooses with each translation.
"""

from t2t_lite.interop.imports.known_keys import known

# Files of the folder; folders in it have no effect. transformers reads a fixed list of names, and
# code that settings name (`auto_map`), but people publish tokenizers beside it, as SMaLL-100's.
FILES = known(
    read="""
        config.json generation_config.json tokenizer_config.json tokenizer.json
        special_tokens_map.json added_tokens.json vocab.json target_vocab.json
        source.spm target.spm sentencepiece.bpe.model tokenization_small100.py
        adapter_config.json model.safetensors model.safetensors.index.json
        pytorch_model.bin pytorch_model.bin.index.json
    """,
    without_effect=r"""
        model-\d+-of-\d+\.safetensors pytorch_model-\d+-of-\d+\.bin
        (pytorch_)?model\.\w+\.(safetensors|bin) pytorch_model_.*\.bin
        \..* (README|LICEN[CS]E|NOTICE|CITATION)[^/]* Makefile Dockerfile
        .*\.(md|txt|pdf|html|bib|cff|rst|tex|ipynb|sh|ya?ml|toml|log|bak|orig)
        .*\.(png|jpe?g|svg|gif|webp|csv|tsv|jsonl|parquet|zip|gz|tar|tgz|npz|npy)
        .*\.(src|tgt|trg|ref|hyp|eval|vocab|spm) events\.out\.tfevents\..*
        (tokenizer|sentencepiece|spiece)\.model
        (tf|flax|rust)_model.* openvino_.* model\.bin (shared|source|target)_vocabulary\.json
        .*\.(h5|msgpack|ot|onnx|onnx_data|gguf|mlmodel|tflite|pt|pth|ckpt|pkl)
        (quant|quantize|quantization|ort|nncf)_config\.json
        (training_args|optimizer|scheduler|scaler|sampler)\.(pt|bin|json) latest
        (.*[_-])?(results|metrics|scores|eval|summary|state|card|index|infos|args)\.json
        metadata\.json (pre)?processor_config\.json chat_template\.(jinja|json)
        (?!(modeling|modular|configuration|tokenization|processing|generation)_).*\.py
    """,
)

_SPECIAL = "bos_token eos_token unk_token sep_token pad_token cls_token mask_token"
_LISTS = "additional_special_tokens extra_special_tokens"
SPECIAL_TOKENS = tuple(_SPECIAL.split())
TOKEN_LISTS = tuple(_LISTS.split())

TOKENIZER = known(
    read=f"""
        {_SPECIAL} {_LISTS} added_tokens_decoder tokenizer_class auto_map legacy_behaviour
        language_codes clean_up_tokenization_spaces separate_vocabs
    """,
    without_effect="""
        (src|tgt|source|target)_lang source_spm target_spm vocab vocab_file target_vocab_file
        spm_file tokenizer_file special_tokens_map_file merges_file name_or_path use_fast
        model_max_length max_len max_length stride (padding|truncation)_side truncation_strategy
        truncation padding pad_to_multiple_of pad_token_type_id return_tensors model_input_names
        num_madeup_words chat_template response_.* chat_control_tokens processor_class backend
        is_local local_files_only files_loaded add_eos_token token_type_ids_.*
        special_tokens_pattern transformers_version slow_tokenizer_class verbose
        clean_up_tokenization_spaces_for_.* device_map errors model_type tokenizer_type task
        _commit_hash revision _from_auto from_slow fix_mistral_regex lang_codes vocab_size
        add_special_tokens return_(attention_mask|token_type_ids) padding_strategy
        (unk|bos|eos|pad|sep|cls|mask)_(token_)?id max_(source|target)_length
        keep_accents remove_space
    """,
)
SPECIAL_TOKENS_MAP = known(read=f"{_SPECIAL} {_LISTS}", without_effect="")
# With its SentencePiece model, a vocabulary needs nothing of it but its tokens and pieces.
FAST_TOKENIZER = known(
    read="added_tokens model normalizer pre_tokenizer",
    without_effect="version truncation padding post_processor decoder",
)

GENERATION = known(
    read="""
        num_beams length_penalty max_length max_new_tokens min_length min_new_tokens
        no_repeat_ngram_size early_stopping bad_words_ids suppress_tokens renormalize_logits
        forced_bos_token_id forced_eos_token_id decoder_start_token_id eos_token_id
    """,
    without_effect="""
        pad_token_id bos_token_id transformers_version _from_model_config num_return_sequences
        output_(attentions|hidden_states|scores|logits) return_dict(_in_generate)? use_cache
        return_legacy_cache use_model_defaults _commit_hash (torch_)?dtype
        cache_.* max_cache_len low_memory compile_config disable_compile prefill_chunk_size
        continuous_batching_config remove_invalid_values
        temperature top_[kph] min_p typical_p epsilon_cutoff eta_cutoff
        is_assistant num_assistant_.* assistant_.* target_lookbehind max_matching_ngram_size
    """,
    begin_suppress_tokens=(None, []),
    constraints=(None,),
    diversity_penalty=(None, 0.0),
    do_sample=(None, False),
    dola_layers=(None,),
    encoder_no_repeat_ngram_size=(None, 0),
    encoder_repetition_penalty=(None, 1.0),
    exponential_decay_length_penalty=(None,),
    force_words_ids=(None,),
    guidance_scale=(None, 1.0),
    max_time=(None,),
    num_beam_groups=(None, 1),
    penalty_alpha=(None, 0.0),
    prompt_lookup_num_tokens=(None,),
    repetition_penalty=(None, 1.0),
    sequence_bias=(None,),
    speculation_type=(None,),
    stop_strings=(None,),
    token_healing=(None, False),
    use_mtp=(None, False),
    watermarking_config=(None,),
)

CONFIG = known(
    read="""
        model_type d_model encoder_layers decoder_layers vocab_size decoder_vocab_size
        max_position_embeddings encoder_ffn_dim decoder_ffn_dim encoder_attention_heads
        decoder_attention_heads activation_function scale_embedding tie_word_embeddings
        share_encoder_decoder_embeddings quantization_config pad_token_id eos_token_id
        decoder_start_token_id t2t_lite_norm_epsilon
    """,
    without_effect="""
        _name_or_path name_or_path _commit_hash architectures transformers_version
        (torch_)?dtype use_bfloat16 _?attn_implementation.* _num_labels num_labels id2label
        label2id problem_type finetuning_task task_specific_params tokenizer_class
        (num_)?hidden_(layers|size) num_attention_heads
        (attention_|activation_|classifier_|classif_)?dropout (encoder|decoder)_layerdrop init_std
        gradient_checkpointing use_cache chunk_size_feed_forward output_past
        output_(attentions|hidden_states|scores) return_dict(_in_generate)? torchscript
        bos_token_id sep_token_id eos_token_ids model_max_length save_step
        (source|target|src|tgt)_lang label_smoothing layerdrop initializer_(range|factor)
        keys_to_ignore_at_inference unsloth_.*
        add_bias_logits add_final_layer_norm extra_pos_embeddings normalize_before
        normalize_embedding static_position_embeddings force_bos_token_to_be_generated
    """,
    is_encoder_decoder=(True,),
    prefix=(None, "", " "),
)
